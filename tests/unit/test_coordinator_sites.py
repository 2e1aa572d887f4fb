"""The coordinator calls no site down before it has listened for a heartbeat."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from running.waiting import eventually
from towpath.contracts.events import SiteChanged
from towpath.contracts.message import Event
from towpath.contracts.site import SiteStatus
from towpath.coordinator.sites import FIRST_HEARTBEAT_S, Sites
from towpath.tasks import end


async def test_site_when_the_coordinator_was_long_in_starting_then_is_down_only_after_it_has_listened() -> (
    None
):
    async def publish(_: Event) -> None: ...

    now = 100.0
    settings = SimpleNamespace(sites=["jfk"], down_after_s=5.0)
    sites = Sites(cast("Any", settings), publish, lambda: now)
    now += 10 * FIRST_HEARTBEAT_S

    sites.listening()
    asking = asyncio.create_task(sites.check_up("jfk", "site"))
    await asyncio.sleep(0)

    assert sites.silent_s("jfk") == 0
    assert not asking.done()
    await sites.on_heartbeat(heartbeat("jfk"))
    await asking


async def test_heartbeats_when_the_hub_takes_no_events_then_are_heard_and_told_in_order_later() -> None:
    told, takes_events = list[Event](), asyncio.Event()

    async def publish(event: Event) -> None:
        await takes_events.wait()
        told.append(event)

    settings = SimpleNamespace(sites=["jfk", "lga"], down_after_s=5.0)
    sites = Sites(cast("Any", settings), publish, lambda: 100.0)
    watching = asyncio.create_task(sites.watch())
    for site in ("jfk", "lga"):
        await sites.on_heartbeat(heartbeat(site))

    assert [status.site for status in sites.heard()] == ["jfk", "lga"]
    takes_events.set()
    await eventually(
        lambda: [event.site for event in told if isinstance(event, SiteChanged)] == ["jfk", "lga"]
    )
    await end([watching])


@pytest.mark.parametrize(
    ("paused_s", "lost"),
    [
        pytest.param(8.0, False, id="the coordinator was deaf, and hears the site again"),
        pytest.param(0.0, True, id="others are heard, and the site is not"),
    ],
)
async def test_site_when_it_was_silent_then_is_down_only_if_the_coordinator_could_hear_others(
    paused_s: float, lost: bool
) -> None:
    async def publish(_: Event) -> None: ...

    now = 100.0
    settings = SimpleNamespace(sites=["jfk", "lga"], down_after_s=5.0)
    sites = Sites(cast("Any", settings), publish, lambda: now)
    await sites.on_heartbeat(heartbeat("jfk"))
    for _ in range(7):
        await sites.on_heartbeat(heartbeat("lga"))
        now += 0.0 if paused_s else 1.0
    now += paused_s

    asking = asyncio.create_task(sites.is_down("jfk"))
    await asyncio.sleep(0)
    assert asking.done() == lost
    if not lost:
        await sites.on_heartbeat(heartbeat("jfk"))

    assert await asking == lost


def heartbeat(site: str) -> SiteStatus:
    return SiteStatus.model_validate({**SiteStatus.example, "site": site})
