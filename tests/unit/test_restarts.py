"""A site restarts when it is asked to, once, and when no job would be interrupted."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from coordinator_trial import Played, entry, job

from running.waiting import WITHIN_S
from towpath.agent import restart as agent_restart
from towpath.agent.restart import Restart
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import now
from towpath.contracts.site import SiteStatus
from towpath.contracts.upgrade import RestartAgent, RestartSite
from towpath.coordinator.restarts import Restarts
from towpath.coordinator.situation import Situation

BEGUN_AT = now()
BEFORE = BEGUN_AT - timedelta(hours=1)


class Mesh(Played):
    """A coordinator that has heard of jfk, whose agent began at `BEGUN_AT`."""

    def status(self, site: str) -> SiteStatus:
        return SiteStatus.model_validate({**SiteStatus.example, "site": site, "begun_at": BEGUN_AT})

    async def request(self, command: Any, *, deadline_s: float, attempt_s: float | None = None) -> None:
        self.requested.append(command)

    @property
    def situation(self) -> Situation:
        played = cast("Any", self)
        return cast(Situation, SimpleNamespace(registry=played, sites=played, bus=played))


async def asked(mesh: Mesh, **more: Any) -> list[Any]:
    await Restarts(mesh.situation).restart(RestartSite(**{"site": "jfk", "begun_at": BEGUN_AT, **more}))
    return mesh.requested


async def test_site_when_no_job_runs_there_then_its_agent_is_told_to_end() -> None:
    (sent,) = await asked(Mesh(entries={"counts": entry(job("counts")).model_copy(update={"site": "lga"})}))
    assert (type(sent), sent.site, sent.begun_at) == (RestartAgent, "jfk", BEGUN_AT)


async def test_site_when_a_job_runs_there_then_is_restarted_only_in_place() -> None:
    mesh = Mesh(entries={"counts": entry(job("counts"))})

    with pytest.raises(TowpathError, match=r"counts run\(s\) at jfk"):
        await asked(mesh)

    assert len(await asked(mesh, in_place=True)) == 1


async def test_site_when_it_has_restarted_since_or_cannot_then_nothing_is_sent() -> None:
    assert await asked(Mesh(), begun_at=BEFORE) == []
    with pytest.raises(TowpathError, match="restart"):
        await asked(Mesh(unable={"jfk"}))


async def test_agent_when_it_is_the_one_that_is_meant_then_answers_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_restart, "ANSWER_S", 0.0)
    ended = asyncio.Event()
    restart = Restart(BEGUN_AT, ended.set)

    await restart.restart(RestartAgent(site="jfk", begun_at=BEGUN_AT))

    await asyncio.wait_for(ended.wait(), WITHIN_S)


async def test_agent_when_another_is_meant_then_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AssertionError("it has not to end")

    assert "another agent" in (await Restart(BEGUN_AT, fail).restart(restart_of_an_earlier())).note


def restart_of_an_earlier() -> RestartAgent:
    return RestartAgent(site="jfk", begun_at=BEFORE)
