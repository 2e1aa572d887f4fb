"""Pipelines in Redis, beside the registry of jobs.

Keys: `towpath:pipelines` (name → record), `towpath:pipeline-versions:<name>` (version → description),
`towpath:apply:<id>`, `towpath:apply-changes:<id>` (job → change), `towpath:applies` (those that have not
ended), `towpath:pipeline-command:<id>` (→ apply).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, cast

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.pipeline import PipelineVersion
from towpath.coordinator.pipeline_record import ApplyRecord, ChangeRecord, PipelineRecord
from towpath.coordinator.registry import COMMAND_REMEMBERED_S, PREFIX, Registry

PIPELINES, APPLIES = f"{PREFIX}pipelines", f"{PREFIX}applies"

VERSIONS_KEPT = 50
"""Of each pipeline, the newest."""

BEGIN_APPLY = """
-- KEYS pipelines, applies, apply, changes, versions, command
-- ARGV name, apply, record, pipeline, version it was decided on ('' for none), version, description ('' for
--   none), oldest version to keep, lifetime of the command (s), changes: job, record, …
local earlier = redis.call('GET', KEYS[6])
if earlier then return {'accepted', earlier} end
local text, version = redis.call('HGET', KEYS[1], ARGV[1]), ''
if text then
  local before = cjson.decode(text)
  version = tostring(before.version)
  if redis.call('SISMEMBER', KEYS[2], before.apply) == 1 then return {'busy', before.apply} end
end
if version ~= ARGV[5] then return {'changed', ''} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
redis.call('SET', KEYS[3], ARGV[3])
for i = 10, #ARGV, 2 do redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1]) end
if ARGV[7] ~= '' then redis.call('HSET', KEYS[5], ARGV[6], ARGV[7]) end
redis.call('HDEL', KEYS[5], ARGV[8])
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('SET', KEYS[6], ARGV[2], 'EX', ARGV[9])
return {'accepted', ARGV[2]}
"""
"""Accept an apply, unless another one of the pipeline is under way or was accepted meanwhile."""

END_APPLY = """
-- KEYS pipelines, applies, apply, versions
-- ARGV name, apply, record, pipeline ('' forgets it)
redis.call('SET', KEYS[3], ARGV[3])
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('DEL', KEYS[4])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
end
redis.call('SREM', KEYS[2], ARGV[2])
return 'written'
"""


class ChangedMeanwhile(Exception):
    """The pipeline is no longer what the decision was made on: decide again."""


def apply_key(apply: str) -> str:
    """Where an apply is."""
    return f"{PREFIX}apply:{apply}"


def changes_key(apply: str) -> str:
    """Where its changes are."""
    return f"{PREFIX}apply-changes:{apply}"


def versions_key(pipeline: str) -> str:
    """Where the descriptions of a pipeline are."""
    return f"{PREFIX}pipeline-versions:{pipeline}"


def pipeline_command_key(command: str) -> str:
    """Which apply a user's command became."""
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
        """Accept an apply in one durable write; the id of the earlier one, if the command came before.

        Raises `ChangedMeanwhile`, and `TowpathError` (busy) while another apply is under way.
        """
        name = record.pipeline
        job_versions = before.job_versions if before else {}
        pipeline = PipelineRecord(
            name=name, version=record.version, apply=record.id, job_versions=job_versions
        )
        keys = [
            PIPELINES,
            APPLIES,
            apply_key(record.id),
            changes_key(record.id),
            versions_key(name),
            pipeline_command_key(record.command),
        ]
        flat = [part for job, change in changes.items() for part in (job, change.model_dump_json())]
        verdict, detail = await self._registry.run_script(
            BEGIN_APPLY,
            keys,
            [
                name,
                record.id,
                record.model_dump_json(),
                pipeline.model_dump_json(),
                str(before.version) if before else "",
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
        """Keep how a change goes."""
        job, text = change.change.job, change.model_dump_json()
        await self._call("hset", changes_key(apply), job, text)

    async def end(self, record: ApplyRecord, pipeline: PipelineRecord | None) -> None:
        """Keep the ended apply and the pipeline it leads to; None forgets the pipeline."""
        keys = [PIPELINES, APPLIES, apply_key(record.id), versions_key(record.pipeline)]
        text = pipeline.model_dump_json() if pipeline else ""
        await self._registry.run_script(
            END_APPLY, keys, [record.pipeline, record.id, record.model_dump_json(), text]
        )

    async def apply_of(self, command: str) -> str | None:
        """The apply a command became, if it was accepted before."""
        return await self._call("get", pipeline_command_key(command))

    async def unfinished(self) -> list[str]:
        """Applies that a coordinator must continue."""
        return sorted(await self._call("smembers", APPLIES))

    async def load(self, apply: str) -> tuple[ApplyRecord, dict[str, ChangeRecord]]:
        """An apply and its changes."""
        text = await self._call("get", apply_key(apply))
        if text is None:
            raise TowpathError(ErrorCode.UNKNOWN_PIPELINE, "no such apply", field="apply", value=apply)
        changes = await self._call("hgetall", changes_key(apply))
        return (
            ApplyRecord.model_validate_json(text),
            {job: ChangeRecord.model_validate_json(change) for job, change in changes.items()},
        )

    async def pipelines(self) -> dict[str, PipelineRecord]:
        """All pipelines, by name."""
        found = await self._call("hgetall", PIPELINES)
        return {name: PipelineRecord.model_validate_json(found[name]) for name in sorted(found)}

    async def pipeline(self, name: str) -> PipelineRecord:
        """One pipeline. Raises `TowpathError` (unknown pipeline)."""
        known = await self.pipelines()
        if name not in known:
            raise TowpathError(
                ErrorCode.UNKNOWN_PIPELINE,
                "no such pipeline",
                field="pipeline",
                value=name,
                allowed=sorted(known),
            )
        return known[name]

    async def versions(self, name: str) -> dict[int, PipelineVersion]:
        """The descriptions of a pipeline that are kept, by version."""
        found = await self._call("hgetall", versions_key(name))
        versions = [PipelineVersion.model_validate_json(text) for text in found.values()]
        return {version.version: version for version in sorted(versions, key=lambda v: v.version)}

    async def _call(self, method: str, *arguments: str) -> Any:
        return await self._registry.patiently(
            lambda redis: cast("Awaitable[Any]", getattr(redis, method)(*arguments))
        )


def busy_pipeline(pipeline: str, apply: str) -> TowpathError:
    """The refusal of a second apply."""
    return TowpathError(
        ErrorCode.BUSY,
        f"apply {apply} of this pipeline is under way",
        field="pipeline",
        value=pipeline,
        allowed=f"when apply {apply} has ended",
    )
