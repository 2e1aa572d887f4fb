"""Asks for all versions of a pipeline, in as many answers as that takes."""

from __future__ import annotations

from towpath.bus import Bus
from towpath.contracts.pipeline import PipelineVersion, ShowPipelineHistory


async def pipeline_versions(
    bus: Bus, pipeline: str, *, deadline_s: float, attempt_s: float
) -> list[PipelineVersion]:
    """Newest first. Raises `TowpathError` when the coordinator does not know the pipeline."""
    found: list[PipelineVersion] = []
    before: int | None = None
    while True:
        question = ShowPipelineHistory(pipeline=pipeline, before=before)
        answer = await bus.request(question, deadline_s=deadline_s, attempt_s=attempt_s)
        found += answer.versions
        if answer.older is None:
            return found
        before = answer.older + 1
