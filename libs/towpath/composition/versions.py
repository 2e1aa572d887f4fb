"""Compare two versions of a pipeline, job by job."""

from __future__ import annotations

from towpath.composition.difference import pinned
from towpath.composition.field_changes import FieldChange, field_changes
from towpath.composition.running import RunningJob
from towpath.contracts.pipeline import Action, PipelineSpec


def differences(current: PipelineSpec, wanted: PipelineSpec) -> dict[str, list[FieldChange] | Action]:
    """Return job → the fields that differ, or that it is added or removed. Equal jobs are left out."""
    old = {job.name: job for job in current.jobs}
    running = {name: RunningJob(job.job_spec(), job.site, current.name) for name, job in old.items()}
    new = {job.name: job for job in pinned(wanted, running).jobs}
    old = {job.name: job for job in pinned(current, running).jobs}
    found: dict[str, list[FieldChange] | Action] = {}
    for name in sorted({**old, **new}):
        if name not in old or name not in new:
            found[name] = Action.ADD if name in new else Action.REMOVE
        elif fields := field_changes(old[name], new[name]):
            found[name] = fields
    return found
