"""The coordinator calls no site down before it has listened for a heartbeat."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from towpath.contracts.message import Event
from towpath.contracts.site import SiteStatus
from towpath.coordinator.sites import FIRST_HEARTBEAT_S, Sites


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
    await sites.on_heartbeat(SiteStatus.model_validate({**SiteStatus.example, "site": "jfk"}))
    await asking
