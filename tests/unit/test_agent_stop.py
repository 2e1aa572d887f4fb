"""The agent waits for a job's micro-batch for a limited time before it stops the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from towpath.agent.assignments import AssignmentStore
from towpath.agent.handlers import AgentHandlers
from towpath.agent.jobs import Jobs
from towpath.agent.reception import Reception
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT, Paused
from towpath.contracts.site_commands import StopJob
from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS

ASSIGNMENT = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
JOB = ASSIGNMENT.spec.name


class Engines:
    """One engine, whose micro-batch needs `batch_s` more and is interrupted if it gets less."""

    def __init__(self, checkpoint: Path, batch_s: float) -> None:
        self._commits, self._batch_s = checkpoint / "commits", batch_s
        for folder in ("offsets", "commits"):
            (checkpoint / folder).mkdir(parents=True)
            (checkpoint / folder / "0").touch()
        (checkpoint / "offsets" / "1").touch()

    def is_starting(self, assignment: Assignment) -> bool:
        return False

    async def halt(self, engine: str, job: str, within_s: float) -> Paused:
        if within_s >= self._batch_s:
            (self._commits / "1").touch()
        return Paused(serials={}, batch=None, last_processed_at=None)


def handlers(directory: Path, batch_s: float) -> AgentHandlers:
    store = AssignmentStore(directory, SPARK_CHECKPOINTS)
    store.save(ASSIGNMENT)
    engines = cast("Any", Engines(store.checkpoint(ASSIGNMENT), batch_s))
    nothing = cast("Any", None)
    return AgentHandlers(Jobs(store, engines, nothing), Reception("jfk", nothing, store, "s"), nothing)


def stop(*, whole: bool) -> StopJob:
    return StopJob(site="jfk", operation="r1", job=JOB, whole=whole)


async def test_stop_when_a_micro_batch_must_be_whole_then_it_gets_as_long_as_a_slow_link_needs(
    tmp_path: Path,
) -> None:
    await handlers(tmp_path, batch_s=60.0).stop_job(stop(whole=True))


async def test_stop_when_a_micro_batch_that_must_be_whole_takes_too_long_then_it_is_refused(
    tmp_path: Path,
) -> None:
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
