"""Applies under way: run each to its end, continue old ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from towpath.contracts.message import Event, now
from towpath.contracts.pipeline import ApplyState, ApplyView, ChangeState
from towpath.contracts.pipeline_commands import ApplyBegun, ApplyEnded
from towpath.coordinator.durable_tasks import DurableTasks
from towpath.coordinator.jobs.operations import Operations
from towpath.coordinator.pipelines.apply_run import ApplyRun
from towpath.coordinator.pipelines.apply_spans import in_apply, tell_apply, tell_apply_begun
from towpath.coordinator.pipelines.records import ApplyRecord, ChangeRecord, PipelineRecord, apply_view
from towpath.coordinator.registry.pipelines import PipelineStore
from towpath.coordinator.situation import Situation

log = logging.getLogger(__name__)


class Applies:
    """Owns the tasks of all applies of this coordinator."""

    def __init__(
        self,
        situation: Situation,
        operations: Operations,
        store: PipelineStore,
        publish: Callable[[Event], Awaitable[None]],
    ) -> None:
        self._situation = situation
        self._operations = operations
        self._store = store
        self._publish = publish
        self._tasks = DurableTasks("apply", self._run)

    async def continue_unfinished(self) -> None:
        """Run every apply that an earlier coordinator left; announce those that ended unannounced."""
        for apply in await self._store.unannounced():
            # Its task finds that it has ended, and only announces that.
            self._tasks.start(apply)
        for apply in await self._store.unfinished():
            log.info("continuing apply %s", apply)
            self._tasks.start(apply)

    async def follow(self, apply: str, *, wait: bool) -> ApplyView:
        """Run an accepted apply unless it has ended. Return its end, or without `wait` its present state."""
        record, changes = await self._store.load(apply)
        if record.state is not ApplyState.RUNNING:
            return apply_view(record, changes)
        running = self._tasks.start(apply)
        if not wait:
            return apply_view(record, changes)
        return await asyncio.shield(running)

    async def _run(self, apply: str) -> ApplyView:
        record, changes = await self._store.load(apply)
        if record.state is not ApplyState.RUNNING:
            if apply in await self._store.unannounced():
                await self._announce(record)
            return apply_view(record, changes)
        # SIGKILL anywhere below: the next coordinator comes to this line, and repeats what changes nothing.
        jobs = [job for job in record.order if not changes[job].keeps]
        await self._publish(
            ApplyBegun(pipeline=record.pipeline, apply=apply, version=record.version, jobs=jobs)
        )
        run = ApplyRun(record, changes, self._situation, self._operations, self._store, self._publish)
        tell_apply_begun(record)
        with in_apply(record):
            await run.run()
        before = await self._store.pipeline(record.pipeline)
        ended = ended_record(record, run.changes, before.goes_back_to)
        await self._store.end(ended, run.changes, pipeline_after(ended, run.changes, before))
        # SIGKILL here: it has ended, and the next coordinator announces that.
        await self._announce(ended)
        return apply_view(ended, run.changes)

    async def _announce(self, ended: ApplyRecord) -> None:
        """Announce that an apply has ended. Questions that follow find it so."""
        tell_apply(ended)
        await self._publish(
            ApplyEnded(
                pipeline=ended.pipeline,
                apply=ended.id,
                version=ended.version,
                state=ended.state,
                note=ended.note,
            )
        )
        await self._store.announced(ended.id)

    async def stop(self) -> None:
        """Stop all applies where they are. The next coordinator continues them."""
        await self._tasks.stop()


def pipeline_after(
    record: ApplyRecord, changes: dict[str, ChangeRecord], before: PipelineRecord
) -> PipelineRecord | None:
    """Return the pipeline after the apply; None if it was deleted."""
    is_complete = record.state is ApplyState.COMPLETED
    if record.delete and is_complete:
        return None
    versions = dict(before.job_versions)
    described = {wanted.name for wanted in record.spec.jobs}
    for job, change in changes.items():
        if job not in described:
            if change.state is ChangeState.COMPLETED:
                versions.pop(job, None)
        elif change.keeps or change.state is ChangeState.COMPLETED:
            versions[job] = record.version
    completed = {*before.completed, *([record.version] if is_complete else [])}
    return before.model_copy(update={"job_versions": versions, "completed": sorted(completed)})


def ended_record(record: ApplyRecord, changes: dict[str, ChangeRecord], back_to: int | None) -> ApplyRecord:
    """Return the record of an apply whose changes have ended, with the outcome for each job.

    `back_to` is the version that a rollback leads to, if there is one.
    """
    unlike = [
        job for job, change in changes.items() if change.state in (ChangeState.FAILED, ChangeState.SKIPPED)
    ]
    note = ""
    if unlike:
        name = record.pipeline
        other_way = (
            f"`towpath pipeline delete {name}` takes all of it away"
            if back_to is None
            else f"`towpath pipeline rollback {name}` goes back to version {back_to}"
        )
        note = (
            f"not as described: {', '.join(sorted(unlike))}; "
            f"`towpath pipeline retry {name}` goes on, {other_way}"
        )
    state = ApplyState.FAILED if unlike else ApplyState.COMPLETED
    return record.model_copy(update={"state": state, "ended_at": now(), "note": note})
