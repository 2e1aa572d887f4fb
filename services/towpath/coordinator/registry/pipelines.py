"""Pipelines in Redis, beside the registry of jobs.

Keys: `towpath:pipelines` (name → record), `towpath:pipeline-versions:<name>` (version → description),
`towpath:apply:<id>`, `towpath:apply-changes:<id>` (job → change), `towpath:apply-ended:<id>` (all
changes of one that has ended), `towpath:applies` (those under way), `towpath:applies-unannounced`
(those whose end was not announced yet),
`towpath:pipeline-command:<id>` (→ apply).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import TypeAdapter

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.pipeline import PipelineVersion
from towpath.coordinator.pipelines.records import ApplyRecord, ChangeRecord, PipelineRecord
from towpath.coordinator.registry.contents import PREFIX
from towpath.coordinator.registry.jobs import COMMAND_REMEMBERED_S, Registry
from towpath.coordinator.registry.scripts import BEGIN_APPLY, END_APPLY, SAVE_CHANGE

PIPELINES, APPLIES = f"{PREFIX}pipelines", f"{PREFIX}applies"
UNANNOUNCED = f"{PREFIX}applies-unannounced"

CHANGES = TypeAdapter(list[ChangeRecord])

VERSIONS_KEPT = 50
"""Versions that are kept of each pipeline, the newest."""


class ChangedMeanwhile(Exception):
    """The pipeline has changed since the decision was made: decide again."""


def apply_key(apply: str) -> str:
    """Return the key of an apply."""
    return f"{PREFIX}apply:{apply}"


def changes_key(apply: str) -> str:
    """Return the key of an apply's changes while it is under way."""
    return f"{PREFIX}apply-changes:{apply}"


def all_changes_key(apply: str) -> str:
    """Return the key of an apply's changes once it has ended."""
    return f"{PREFIX}apply-ended:{apply}"


def versions_key(pipeline: str) -> str:
    """Return the key of a pipeline's descriptions."""
    return f"{PREFIX}pipeline-versions:{pipeline}"


def pipeline_command_key(command: str) -> str:
    """Return the key with the apply that a user's command became."""
    return f"{PREFIX}pipeline-command:{command}"


class PipelineStore:
    """Reads and writes pipelines. Waits through restarts of Redis, like the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def begin(
        self,
        record: ApplyRecord,
        changes: Mapping[str, ChangeRecord],
        before: PipelineRecord | None,
        version: PipelineVersion | None,
    ) -> str:
        """Accept an apply in one durable write. Return its id, or the earlier id if the command came before.

        Raises `ChangedMeanwhile`, and `TowpathError` (busy) while another apply is under way.
        """
        name = record.pipeline
        standing = before or PipelineRecord(name=name, version=0, apply=record.id)
        completed = [v for v in standing.completed if v > record.version - VERSIONS_KEPT]
        pipeline = standing.model_copy(
            update={"version": record.version, "apply": record.id, "completed": completed}
        )
        keys = [
            PIPELINES,
            APPLIES,
            apply_key(record.id),
            changes_key(record.id),
            versions_key(name),
            pipeline_command_key(record.command),
        ]
        if before is not None:
            keys += [apply_key(before.apply), changes_key(before.apply), all_changes_key(before.apply)]
        flat = [part for job, change in changes.items() for part in (job, _text(change))]
        verdict, detail = await self._registry.accept(
            BEGIN_APPLY,
            keys,
            [
                name,
                record.id,
                record.model_dump_json(),
                pipeline.model_dump_json(),
                before.apply if before else "",
                str(record.version),
                version.model_dump_json() if version else "",
                str(record.version - VERSIONS_KEPT),
                str(COMMAND_REMEMBERED_S),
                *flat,
            ],
        )
        if verdict == "busy":
            raise busy_pipeline(name, detail)
        if verdict == "changed":
            raise ChangedMeanwhile(name)
        return detail

    async def save_change(self, apply: str, change: ChangeRecord) -> None:
        """Save the state of a change."""
        keys, arguments = [APPLIES, changes_key(apply)], [apply, change.change.job, _text(change)]
        await self._registry.run_script(SAVE_CHANGE, keys, arguments)

    async def end(
        self, record: ApplyRecord, changes: Mapping[str, ChangeRecord], pipeline: PipelineRecord | None
    ) -> None:
        """Save the ended apply and the pipeline it leads to. None forgets the pipeline."""
        keys = [
            PIPELINES,
            APPLIES,
            apply_key(record.id),
            versions_key(record.pipeline),
            changes_key(record.id),
            all_changes_key(record.id),
            UNANNOUNCED,
        ]
        text = pipeline.model_dump_json() if pipeline else ""
        every = CHANGES.dump_json(list(changes.values()), exclude_defaults=True).decode()
        forgotten_s = str(COMMAND_REMEMBERED_S)
        await self._registry.run_script(
            END_APPLY, keys, [record.pipeline, record.id, record.model_dump_json(), text, every, forgotten_s]
        )

    async def apply_of(self, command: str) -> str | None:
        """Return the apply that a command became, if it was accepted before."""
        return await self._registry.call("get", pipeline_command_key(command))

    async def unfinished(self) -> list[str]:
        """Return the applies that a coordinator must continue."""
        return sorted(await self._registry.call("smembers", APPLIES))

    async def unannounced(self) -> list[str]:
        """Return ended applies that a coordinator must still announce, except those that are forgotten."""
        known = sorted(await self._registry.call("smembers", UNANNOUNCED))
        forgotten = [apply for apply in known if not await self._registry.call("exists", apply_key(apply))]
        for apply in forgotten:
            await self.announced(apply)
        return [apply for apply in known if apply not in forgotten]

    async def announced(self, apply: str) -> None:
        """Note that the end of the apply was announced."""
        await self._registry.write(("SREM", UNANNOUNCED, apply))

    async def load(self, apply: str) -> tuple[ApplyRecord, dict[str, ChangeRecord]]:
        """Return an apply and its changes."""
        return await self.record(apply), await self._changes(apply)

    async def record(self, apply: str) -> ApplyRecord:
        """Return an apply without its changes."""
        text = await self._registry.call("get", apply_key(apply))
        if text is None:
            raise TowpathError(ErrorCode.UNKNOWN_PIPELINE, "no such apply", field="apply", value=apply)
        return ApplyRecord.from_json(text)

    async def _changes(self, apply: str) -> dict[str, ChangeRecord]:
        found = await self._registry.call("hgetall", changes_key(apply))
        if found:
            return {job: ChangeRecord.from_json(change) for job, change in found.items()}
        # There are none: it has just ended, or had none.
        every = CHANGES.validate_json(await self._registry.call("get", all_changes_key(apply)) or "[]")
        return {change.change.job: change for change in every}

    async def pipelines(self) -> dict[str, PipelineRecord]:
        """Return all pipelines by name."""
        found = await self._registry.call("hgetall", PIPELINES)
        return {name: PipelineRecord.from_json(found[name]) for name in sorted(found)}

    async def pipeline(self, name: str) -> PipelineRecord:
        """Return one pipeline. Raises `TowpathError` (unknown pipeline)."""
        known = await self.pipelines()
        if name not in known:
            raise TowpathError.unknown("pipeline", name, sorted(known))
        return known[name]

    async def versions(self, name: str) -> dict[int, PipelineVersion]:
        """Return the kept descriptions of a pipeline by version."""
        found = await self._registry.call("hgetall", versions_key(name))
        versions = [PipelineVersion.from_json(text) for text in found.values()]
        return {version.version: version for version in sorted(versions, key=lambda v: v.version)}

    async def artefacts(self) -> set[str]:
        """Return the digests of all user code in versions of pipelines: a rollback may need it."""
        digests: set[str] = set()
        for name in await self._registry.call("hkeys", PIPELINES):
            for text in await self._registry.call("hvals", versions_key(name)):
                digests.update(json.loads(text).get("artefacts", {}).values())
        return digests


def _text(change: ChangeRecord) -> str:
    """Return a change as JSON without default values: there are many, and most are alike."""
    return change.model_dump_json(exclude_defaults=True)


def busy_pipeline(pipeline: str, apply: str) -> TowpathError:
    """Return the refusal of a second apply."""
    return TowpathError(
        ErrorCode.BUSY,
        f"apply {apply} of this pipeline is under way",
        field="pipeline",
        value=pipeline,
        allowed=f"when apply {apply} has ended",
    )
