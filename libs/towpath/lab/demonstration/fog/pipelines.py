"""Whole pipelines by command: applied and deleted, with a deadline and one line of what happened."""

from __future__ import annotations

from importlib.resources import files

from towpath.bus import Bus
from towpath.composition.documents import read_document
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.pipeline import ApplyState, ApplyView, ChangeView, PipelinePlan, PipelineSpec
from towpath.contracts.pipeline_commands import ApplyPipeline, DeletePipeline, PlanPipeline

CHANGE_S, ATTEMPT_S = 240.0, 30.0
LOOK_S, LOOK_ATTEMPT_S = 60.0, 10.0


def described(name: str) -> PipelineSpec:
    """A description that comes with this package: `delays-1` or `delays-2`."""
    text = files(__package__ or "").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    return read_document(text, name=None, sites=[]).spec


async def apply(bus: Bus, spec: PipelineSpec) -> ApplyView:
    """Make the pipeline be as described. Raises `TowpathError` (failed) naming the jobs that are not."""
    view = await bus.request(ApplyPipeline(spec=spec), deadline_s=CHANGE_S, attempt_s=ATTEMPT_S)
    return _completed(view)


async def delete(bus: Bus, pipeline: str) -> ApplyView:
    """Remove the pipeline with its results; what its inputs still hold is not processed any more."""
    command = DeletePipeline(pipeline=pipeline, now=True, purge=True)
    return _completed(await bus.request(command, deadline_s=CHANGE_S, attempt_s=ATTEMPT_S))


async def plan(bus: Bus, spec: PipelineSpec) -> PipelinePlan:
    """Return the changes that `apply` would make."""
    return await bus.request(PlanPipeline(spec=spec), deadline_s=LOOK_S, attempt_s=LOOK_ATTEMPT_S)


def _completed(view: ApplyView) -> ApplyView:
    if view.state is not ApplyState.COMPLETED:
        reasons = "; ".join(_reason(change) for change in view.changes if change.error is not None)
        raise TowpathError(
            ErrorCode.FAILED, f"{view.pipeline} version {view.version} {view.state}: {reasons or view.note}"
        )
    return view


def _reason(change: ChangeView) -> str:
    assert change.error is not None
    return f"{change.change.job}: {change.error.one_line()}"
