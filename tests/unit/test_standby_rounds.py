"""Rounds that renew the copies of standbys, while sites die and return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from coordinator_trial import entry, job

from running.waiting import eventually
from towpath.contracts.job import Standby
from towpath.contracts.message import Command
from towpath.contracts.migration import ShipCheckpoint
from towpath.contracts.site import Capability, SiteState
from towpath.contracts.standby import KeepStandby, StandbyKept
from towpath.coordinator import standbys
from towpath.coordinator.situation import Situation
from towpath.coordinator.standbys import AT_ONCE, Standbys
from towpath.tasks import end

OFTEN_S = 0.01


@dataclass
class Sites:
    """Two sites with jobs whose standby is the cloud. What is asked of jfk is never answered."""

    up: set[str] = field(default_factory=lambda: {"jfk", "lga", "cloud"})
    asked: list[str] = field(default_factory=list)
    """Jobs that were asked for their state."""
    mirrored: int = 20
    epoch: int = 1
    """Of the job's owner, as its site said last."""

    def state(self, site: str) -> SiteState:
        return SiteState.UP if site in self.up else SiteState.DOWN

    def silent_s(self, site: str) -> float:
        return 21.0

    def can(self, site: str, capability: Capability) -> bool:
        return True

    def check_can(self, site: str, capability: Capability, field: str) -> None: ...

    def job(self, site: str, name: str) -> Any:
        return SimpleNamespace(epoch=self.epoch, serials={"jfk/site/raw": 30})

    async def request(self, command: Command[Any], **_: Any) -> Any:
        if isinstance(command, KeepStandby):
            return StandbyKept(mirrored={"jfk/site/raw": self.mirrored})
        assert isinstance(command, ShipCheckpoint)
        self.asked.append(command.job)
        if command.site == "jfk":
            await asyncio.Event().wait()
        return SimpleNamespace(batch=None)


def job_at(site: str, name: str) -> Any:
    found = entry(job(name))
    spec = found.spec.model_copy(update={"standby": Standby(site="cloud", every_s=1)})
    return found.model_copy(update={"site": site, "spec": spec})


@pytest.fixture
async def sites(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sites]:
    monkeypatch.setattr(standbys, "LOOK_EVERY_S", OFTEN_S)
    played = Sites()
    entries = {f"lost-{number}": job_at("jfk", f"lost-{number}") for number in range(AT_ONCE)}
    entries["other"] = job_at("lga", "other")

    async def jobs() -> Any:
        return entries

    async def locks() -> Any:
        return {}

    registry = SimpleNamespace(jobs=jobs, locks=locks)
    situation = SimpleNamespace(registry=registry, sites=played, bus=played)
    watching = asyncio.create_task(Standbys(cast(Situation, situation)).watch())
    yield played
    await end([watching])


async def test_rounds_when_their_site_dies_meanwhile_then_those_of_other_sites_go_on(sites: Sites) -> None:
    await eventually(lambda: len(sites.asked) == AT_ONCE)
    assert "other" not in sites.asked

    sites.up.remove("jfk")

    await eventually(lambda: "other" in sites.asked)


async def test_rounds_when_their_site_has_died_and_returned_then_begin_again(sites: Sites) -> None:
    await eventually(lambda: len(sites.asked) == AT_ONCE)
    sites.up.remove("jfk")
    await eventually(lambda: "other" in sites.asked)

    sites.up.add("jfk")

    await eventually(lambda: sites.asked.count("lost-0") == 2)


async def test_ask_when_mirrors_went_on_after_the_last_round_then_what_they_have_is_not_lost(
    sites: Sites,
) -> None:
    situation = SimpleNamespace(sites=sites, bus=sites)
    found, lost = Standbys(cast(Situation, situation)), job_at("jfk", "lost-0")
    before = await found.ask(lost)

    sites.mirrored = 30

    assert (before.lost_events, (await found.ask(lost)).lost_events) == (10, 0)


async def test_ask_when_the_site_is_down_then_tells_for_how_long_no_one_has_heard_what_it_had(
    sites: Sites,
) -> None:
    situation = SimpleNamespace(sites=sites, bus=sites)
    found, lost = Standbys(cast(Situation, situation)), job_at("jfk", "lost-0")
    before = await found.ask(lost)

    sites.up.remove("jfk")

    assert (before.unheard_s, (await found.ask(lost)).unheard_s) == (None, 21.0)


async def test_ask_when_the_owner_has_said_nothing_then_does_not_say_that_nothing_is_lost(
    sites: Sites,
) -> None:
    situation = SimpleNamespace(sites=sites, bus=sites)
    sites.epoch = 0

    found = await Standbys(cast(Situation, situation)).ask(job_at("jfk", "lost-0"))

    assert found.lost_events is None
