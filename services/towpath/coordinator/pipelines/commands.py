"""Answer the commands about pipelines: one method for each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command, new_identifier
from towpath.contracts.message import now as present
from towpath.contracts.pipeline import (
    ApplyView,
    ChangeState,
    PipelinePlan,
    PipelineSpec,
    PipelineVersion,
    PipelineView,
    PlannedChange,
)
from towpath.contracts.pipeline_commands import (
    ApplyPipeline,
    DeletePipeline,
    ListPipelines,
    PipelineHistory,
    PipelineList,
    PlanPipeline,
    RetryPipeline,
    RollbackPipeline,
    ShowPipeline,
    ShowPipelineHistory,
)
from towpath.coordinator.pipelines.applies import Applies
from towpath.coordinator.pipelines.decisions import Decision, decide, read_elsewhere, refusal
from towpath.coordinator.pipelines.records import ApplyRecord, ChangeRecord, PipelineRecord, apply_view
from towpath.coordinator.pipelines.room import room_problems
from towpath.coordinator.registry.jobs import in_time
from towpath.coordinator.registry.pipelines import ChangedMeanwhile, PipelineStore, busy_pipeline
from towpath.coordinator.situation import Situation
from towpath.telemetry.tracing import traceparent

DECISIONS = 5
"""Times that a decision is made because the pipeline changed meanwhile, before the sender must wait."""

HISTORY_BYTES = 4_000_000
"""Bytes of descriptions in one answer: half of what a message may hold."""


class PipelineCommands:
    """Answers the commands about pipelines."""

    def __init__(self, situation: Situation, store: PipelineStore, applies: Applies) -> None:
        self._situation = situation
        self._store = store
        self._applies = applies
        self._accepting = asyncio.Lock()
        """Lock, so that two applies are not promised the same room."""

    async def serve(self, bus: Bus) -> None:
        """Listen for all commands."""
        await bus.serve(ApplyPipeline, self.apply)
        await bus.serve(PlanPipeline, self.plan)
        await bus.serve(DeletePipeline, self.delete)
        await bus.serve(RollbackPipeline, self.rollback)
        await bus.serve(RetryPipeline, self.retry)
        await bus.serve(ShowPipeline, self.show)
        await bus.serve(ListPipelines, self.list_pipelines)
        await bus.serve(ShowPipelineHistory, self.show_history)

    async def apply(self, command: ApplyPipeline) -> ApplyView:
        """See `ApplyPipeline`."""
        return await self._accept(
            command,
            command.spec,
            wait=command.wait,
            now=command.now,
            at_once=command.at_once,
            drop_state=command.drop_state,
            expected=command.expected_apply,
        )

    async def plan(self, command: PlanPipeline) -> PipelinePlan:
        """See `PlanPipeline`."""
        decision = await decide(command.spec, self._situation, self._store, drop_state=command.drop_state)
        return decision.plan(command.at_once)

    async def delete(self, command: DeletePipeline) -> ApplyView:
        """See `DeletePipeline`."""
        empty = PipelineSpec(name=command.pipeline, jobs=[])
        if await self._store.apply_of(command.id) is None:
            await self._store.pipeline(command.pipeline)
            if command.purge:
                await self._check_unread(command.pipeline)
        return await self._accept(
            command,
            empty,
            wait=command.wait,
            now=command.now,
            purge=command.purge,
            at_once=command.at_once,
            delete=True,
        )

    async def _check_unread(self, pipeline: str) -> None:
        reading = read_elsewhere(pipeline, await self._situation.registry.jobs())
        if reading:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"{', '.join(reading)} read(s) what this pipeline wrote",
                field="purge",
                value=True,
                allowed=f"false, or remove {', '.join(reading)} first",
            )

    async def rollback(self, command: RollbackPipeline) -> ApplyView:
        """See `RollbackPipeline`."""
        versions = await self._store.versions(command.pipeline)
        current = await self._store.pipeline(command.pipeline)
        wanted = command.version
        if wanted is None:
            wanted = current.goes_back_to
        if wanted is None or wanted not in versions or wanted == current.version:
            raise _no_way_back(command, [v for v in versions if v != current.version])
        return await self._accept(
            command,
            versions[wanted].spec,
            kept=versions[wanted].artefacts,
            wait=command.wait,
            now=command.now,
            at_once=command.at_once,
            drop_state=command.drop_state,
        )

    async def retry(self, command: RetryPipeline) -> ApplyView:
        """See `RetryPipeline`."""
        # Repeated after a delete has ended well, there is no pipeline any more.
        begun = await self._store.apply_of(command.id)
        failed, _ = await self._store.load(begun or (await self._store.pipeline(command.pipeline)).apply)
        return await self._accept(
            command,
            failed.spec,
            kept=failed.artefacts,
            wait=command.wait,
            now=failed.now,
            purge=failed.purge,
            at_once=command.at_once,
            drop_state=failed.drop_state,
            delete=failed.delete,
        )

    async def show(self, command: ShowPipeline) -> PipelineView:
        """See `ShowPipeline`."""
        return await in_time(self._view(command.pipeline))

    async def _view(self, name: str) -> PipelineView:
        return await self._view_of(await self._store.pipeline(name))

    async def _view_of(self, pipeline: PipelineRecord) -> PipelineView:
        record, changes = await self._store.load(pipeline.apply)
        return PipelineView(
            pipeline=pipeline.name,
            version=pipeline.version,
            spec=record.spec,
            apply=apply_view(record, changes),
            job_versions=pipeline.job_versions,
        )

    async def list_pipelines(self, _: ListPipelines) -> PipelineList:
        """See `ListPipelines`."""
        known = await in_time(self._store.pipelines())
        return PipelineList(pipelines=[await in_time(self._view_of(record)) for record in known.values()])

    async def show_history(self, command: ShowPipelineHistory) -> PipelineHistory:
        """See `ShowPipelineHistory`."""
        await in_time(self._store.pipeline(command.pipeline))
        versions = await in_time(self._store.versions(command.pipeline))
        if command.version is not None and command.version not in versions:
            raise TowpathError(
                ErrorCode.INVALID,
                f"{command.pipeline} has no such version",
                field="version",
                value=command.version,
                allowed=[str(version) for version in versions],
            )
        wanted = versions if command.version is None else {command.version: versions[command.version]}
        return _newest([v for n, v in wanted.items() if command.before is None or n < command.before])

    async def _accept(
        self,
        command: Command[ApplyView],
        spec: PipelineSpec,
        *,
        wait: bool,
        now: bool,
        at_once: int,
        purge: bool = False,
        drop_state: list[str] | None = None,
        delete: bool = False,
        kept: Mapping[str, str] | None = None,
        expected: str | None = None,
    ) -> ApplyView:
        """Decide, write and run. A repeated command joins its first apply, or gets its answer."""
        apply = await self._store.apply_of(command.id)
        for _ in range(DECISIONS):
            if apply is not None:
                return await self._applies.follow(apply, wait=wait)
            decision = await decide(
                spec, self._situation, self._store, drop_state=drop_state or [], delete=delete, kept=kept
            )
            if decision.under_way is not None:
                apply = await self._store.apply_of(command.id)
                if apply is None:
                    raise busy_pipeline(spec.name, decision.under_way)
                continue
            decision.check_follows(expected)
            if decision.changes_nothing and not delete and decision.is_current:
                return await self._nothing_to_do(decision)
            record = _record(command, decision, now=now, at_once=at_once, purge=purge, delete=delete)
            record = record.model_copy(update={"drop_state": drop_state or []})
            changes = {c.job: _change(c) for c in decision.changes}
            try:
                apply = await self._begin(record, changes, decision)
            except ChangedMeanwhile:
                continue
            return await self._applies.follow(apply, wait=wait)
        raise TowpathError(ErrorCode.BUSY, "the pipeline keeps changing", field="pipeline", value=spec.name)

    async def _begin(
        self, record: ApplyRecord, changes: Mapping[str, ChangeRecord], decision: Decision
    ) -> str:
        """Accept an apply. Raises `TowpathError` when another one, accepted meanwhile, has taken its room."""
        async with self._accepting:
            wrong = await room_problems(record.spec, self._situation, self._store)
            if wrong:
                raise refusal(wrong)
            return await self._store.begin(record, changes, decision.before, _version(record))

    async def _nothing_to_do(self, decision: Decision) -> ApplyView:
        """Answer with the newest apply: the jobs that run are already as described."""
        assert decision.before is not None
        record, changes = await self._store.load(decision.before.apply)
        kept: Mapping[str, ChangeRecord] = {c.job: _change(c) for c in decision.changes}
        view = apply_view(record, {**changes, **kept})
        changes_now = [kept[job].view() for job in sorted(kept)]
        return view.model_copy(
            update={"changes": changes_now, "note": "nothing to do: the pipeline is as described"}
        )


def _newest(versions: list[PipelineVersion]) -> PipelineHistory:
    """Return the newest versions that fit into an answer, at least one."""
    found: list[PipelineVersion] = []
    size = 0
    for version in sorted(versions, key=lambda v: v.version, reverse=True):
        size += len(version.model_dump_json())
        if found and size > HISTORY_BYTES:
            return PipelineHistory(versions=found, older=version.version)
        found.append(version)
    return PipelineHistory(versions=found)


def _no_way_back(command: RollbackPipeline, others: list[int]) -> TowpathError:
    none_completed = "no other version has been completed"
    return TowpathError(
        ErrorCode.NOT_ALLOWED,
        none_completed if command.version is None else "there is no such earlier version",
        field="version",
        value=command.version,
        allowed=[str(version) for version in others] or "none yet; retry the apply, or delete the pipeline",
    )


def _record(
    command: Command[ApplyView], decision: Decision, *, now: bool, at_once: int, purge: bool, delete: bool
) -> ApplyRecord:
    return ApplyRecord(
        id=new_identifier(),
        command=command.id,
        asked_by=command.asked_by,
        version=decision.version,
        spec=decision.spec,
        artefacts=dict(decision.artefacts),
        delete=delete,
        purge=purge,
        now=now,
        at_once=at_once,
        order=[change.job for change in decision.changes],
        begun_at=present(),
        traceparent=traceparent(),
    )


def _version(record: ApplyRecord) -> PipelineVersion | None:
    if record.delete:
        return None
    return PipelineVersion(
        version=record.version,
        at=record.begun_at,
        asked_by=record.asked_by,
        spec=record.spec,
        artefacts=record.artefacts,
    )


def _change(planned: PlannedChange) -> ChangeRecord:
    change = ChangeRecord(change=planned)
    return change.model_copy(update={"state": ChangeState.COMPLETED}) if change.keeps else change
