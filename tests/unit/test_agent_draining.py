"""A job that reads its inputs to their end before it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from running.waiting import WITHIN_S
from towpath.agent.assignments import AssignmentStore
from towpath.agent.handlers import drain
from towpath.agent.jobs import Jobs
from towpath.contracts.job import Assignment
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS
from towpath.streams.stream_view import StreamView

ASSIGNMENT = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
NAME = ASSIGNMENT.inputs[0].name


class Engines:
    """One restarted engine: each job that it runs reads all events there are."""

    async def run(self, assignment: Assignment, checkpoint: Path) -> None:
        for folder, text in (("offsets", 'v1\n{}\n{"serial": 7}'), ("commits", "v1\n{}")):
            (checkpoint / folder).mkdir(parents=True, exist_ok=True)
            (checkpoint / folder / "0").write_text(text)


class Streams:
    """An input with seven events."""

    @property
    def mirrors(self) -> Streams:
        return self

    async def view(self, site: str, stream: str) -> StreamView:
        return StreamView(stream, created="", subjects=(), first=1, last=7, size=0)

    async def ensure(self, resolved: Any, after: int | None) -> str:
        return resolved.stream


async def test_drain_when_the_engine_was_restarted_then_the_job_runs_to_the_end(tmp_path: Path) -> None:
    store = AssignmentStore(tmp_path, SPARK_CHECKPOINTS)
    store.save(ASSIGNMENT)
    jobs = Jobs(store, cast("Any", Engines()), cast("Any", Streams()))
    async with asyncio.timeout(WITHIN_S), jobs.lock(ASSIGNMENT.spec.name):
        await drain(jobs, ASSIGNMENT, [NAME], within_s=WITHIN_S)
    assert jobs.position(ASSIGNMENT) == {NAME: 7}
