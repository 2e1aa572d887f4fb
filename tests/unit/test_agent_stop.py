"""The agent waits for a job's micro-batch for a limited time before it stops the job."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from towpath.agent import handlers as agent_handlers
from towpath.agent.assignments import AssignmentStore
from towpath.agent.handlers import AgentHandlers
from towpath.agent.jobs import Jobs
from towpath.agent.reception import Reception
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT, Paused
from towpath.contracts.site_commands import StopJob
from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS

ASSIGNMENT = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
JOB = ASSIGNMENT.spec.name


class Engines:
    """One engine, whose micro-batch needs `batch_s` more and is interrupted if it gets less.

    When it runs again it finishes the micro-batch, if it `recovers`.
    """

    def __init__(self, checkpoint: Path, batch_s: float, *, recovers: bool = False) -> None:
        self._commits, self._batch_s, self._recovers = checkpoint / "commits", batch_s, recovers
        self.runs = 0
        for folder in ("offsets", "commits"):
            (checkpoint / folder).mkdir(parents=True)
            (checkpoint / folder / "0").touch()
        (checkpoint / "offsets" / "1").touch()

    def is_starting(self, assignment: Assignment) -> bool:
        return False

    async def run(self, assignment: Assignment, checkpoint: Path) -> None:
        self.runs += 1
        if self._recovers:
            (self._commits / "1").touch()

    async def halt(self, engine: str, job: str, within_s: float) -> Paused:
        if within_s >= self._batch_s:
            (self._commits / "1").touch()
        return Paused(serials={}, batch=None, last_processed_at=None)


class Mirrors:
    """Mirrors that are all there."""

    async def ensure(self, entry: Any, position: int | None) -> None:
        pass


def handlers(directory: Path, batch_s: float, **options: bool) -> AgentHandlers:
    store = AssignmentStore(directory, SPARK_CHECKPOINTS)
    store.save(ASSIGNMENT)
    engines = cast("Any", Engines(store.checkpoint(ASSIGNMENT), batch_s, **options))
    nothing, streams = cast("Any", None), cast("Any", SimpleNamespace(mirrors=Mirrors()))
    return AgentHandlers(Jobs(store, engines, streams), Reception("jfk", nothing, store, "s"), nothing)


def stop(*, whole: bool) -> StopJob:
    return StopJob(site="jfk", operation="r1", job=JOB, whole=whole)


async def test_stop_when_a_micro_batch_must_be_whole_then_it_gets_as_long_as_a_slow_link_needs(
    tmp_path: Path,
) -> None:
    await handlers(tmp_path, batch_s=60.0).stop_job(stop(whole=True))


async def test_stop_when_an_engine_died_in_a_micro_batch_then_that_is_finished_first(tmp_path: Path) -> None:
    stopping = handlers(tmp_path, batch_s=1_000.0, recovers=True)
    await stopping.stop_job(stop(whole=True))
    assert cast("Any", stopping.jobs.engines).runs == 1
    assert stopping.jobs.assignments[JOB].desired is DesiredState.HELD


async def test_stop_when_a_micro_batch_that_must_be_whole_takes_too_long_then_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_handlers, "WHOLE_S", 0.1)
    with pytest.raises(TowpathError) as refused:
        await handlers(tmp_path, batch_s=1_000.0).stop_job(stop(whole=True))
    assert refused.value.detail.code is ErrorCode.FAILED


async def test_stop_when_a_micro_batch_may_be_repeated_then_no_one_waits_long_for_it(tmp_path: Path) -> None:
    stopping = handlers(tmp_path, batch_s=60.0)
    await stopping.stop_job(stop(whole=False))
    checkpoint = stopping.jobs.store.checkpoint(ASSIGNMENT)
    assert sorted(path.name for path in (checkpoint / "commits").iterdir()) == ["0"]


async def test_stop_when_the_job_was_given_again_since_then_is_refused(tmp_path: Path) -> None:
    stale = stop(whole=False).model_copy(update={"epoch": ASSIGNMENT.epoch - 1, "forget": True})
    stopping = handlers(tmp_path, batch_s=0.0)
    with pytest.raises(TowpathError) as refused:
        await stopping.stop_job(stale)
    assert refused.value.detail.code is ErrorCode.FENCED
    assert stopping.jobs.store.checkpoint(ASSIGNMENT).exists()
