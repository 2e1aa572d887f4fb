"""Print pipelines, their plans and their versions on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.cli.output import clock, print_json, print_table
from towpath.cli.pipeline_applying import print_outcome
from towpath.cli.pipeline_progress import what
from towpath.composition.field_changes import FieldChange
from towpath.composition.versions import differences
from towpath.contracts.pipeline import Action, PipelinePlan, PipelineSpec, PipelineVersion, PipelineView
from towpath.reports.costs import amount, seconds


def print_plan(plan: PipelinePlan) -> None:
    """Print the planned changes in order."""
    touched = [change for change in plan.changes if change.actions != [Action.KEEP]]
    rows = [
        (
            change.job,
            what(change),
            ", ".join(change.after) or None,
            change.strategy,
            seconds(change.predicted_s),
            amount(change.predicted_bytes) if change.predicted_bytes else None,
            change.reason,
        )
        for change in touched
    ]
    columns = ("job", "change", "after", "strategy", "expected", "state", "why")
    print_table(columns, rows, nothing=f"nothing differs from version {plan.version} of {plan.pipeline}")
    if touched:
        print(
            f"{plan.pipeline} would be at version {plan.version}: {len(touched)} change(s), "
            f"{len(plan.changes) - len(touched)} job(s) untouched; "
            f"expected: {seconds(plan.predicted_s)}, {amount(plan.predicted_bytes)} of state"
        )


def print_pipelines(found: Sequence[PipelineView]) -> None:
    """Print a line for each pipeline."""
    rows = [
        (view.pipeline, view.version, len(view.spec.jobs), view.apply.state, clock(view.apply.begun_at))
        for view in found
    ]
    nothing = "no pipelines; describe one and `towpath pipeline apply` it"
    print_table(("pipeline", "version", "jobs", "newest apply", "begun"), rows, nothing=nothing)


def print_pipeline(view: PipelineView) -> None:
    """Print a pipeline's jobs, and the state of its newest apply."""
    rows = [
        (
            job.name,
            job.site,
            job.operator.kind,
            ", ".join(wanted.name for wanted in job.inputs),
            f"{job.output_site}/{job.output.topic}",
            _at_version(view, job.name),
        )
        for job in view.spec.jobs
    ]
    columns = ("job", "site", "operator", "reads", "writes", "at version")
    print_table(columns, rows, nothing="no jobs")
    print_outcome(view.apply)


def _at_version(view: PipelineView, job: str) -> int | str | None:
    """Return a job's version. If a change failed half-way, add the parts of the desired one that it has."""
    version = view.job_versions.get(job)
    change = next((c for c in view.apply.changes if c.change.job == job), None)
    if change is None or not change.done or version == view.version:
        return version
    missing = [action for action in change.change.actions if action not in change.done]
    if not missing:
        return version
    partly = f"partly {view.version} (not: {', '.join(missing)})"
    return partly if version is None else f"{version}, {partly}"


def print_history(versions: Sequence[PipelineVersion]) -> None:
    """Print a line for each version, with the differences from the version before."""
    older = [*versions[1:], None]
    rows = [
        (
            v.version,
            clock(v.at),
            v.asked_by,
            len(v.spec.jobs),
            _summary(before.spec if before else None, v.spec),
        )
        for v, before in zip(versions, older, strict=True)
    ]
    print_table(("version", "applied", "by", "jobs", "against the one before"), rows, nothing="no versions")


def print_differences(current: PipelineSpec, wanted: PipelineSpec, *, as_json: bool) -> None:
    """Print the fields that a description changes, job by job."""
    found = differences(current, wanted)
    if as_json:
        return print_json([_as_data(job, fields) for job, fields in found.items()])
    if not found:
        print(f"nothing differs in {current.name}")
    for job, fields in found.items():
        print(f"{_sign(fields)} {job}")
        for field in fields if isinstance(fields, list) else ():
            print(f"    {field}")


def _sign(fields: list[FieldChange] | Action) -> str:
    return {Action.ADD: "+", Action.REMOVE: "-"}[fields] if isinstance(fields, Action) else "~"


def _as_data(job: str, fields: list[FieldChange] | Action) -> dict[str, object]:
    if isinstance(fields, Action):
        return {"job": job, "change": fields.value, "fields": []}
    changed = [field.as_told().model_dump(mode="json") for field in fields]
    return {"job": job, "change": Action.CHANGE.value, "fields": changed}


def _summary(before: PipelineSpec | None, after: PipelineSpec) -> str | None:
    if before is None:
        return None
    found = differences(before, after)
    return ", ".join(f"{_sign(fields)}{job}" for job, fields in found.items()) or "the same"
