"""The two pipelines that come with this package, and the commands that plan and apply them."""

from __future__ import annotations

from importlib.resources import files

from towpath.bus import Bus
from towpath.composition.documents import read_document
from towpath.contracts.pipeline import ApplyView, PipelinePlan, PipelineSpec
from towpath.contracts.pipeline_commands import ApplyPipeline, PlanPipeline
from towpath.lab.scenarios.restoration import APPLY_S, check_applied

ATTEMPT_S = 30.0
LOOK_S, LOOK_ATTEMPT_S = 60.0, 10.0


def described(name: str) -> PipelineSpec:
    """A description that comes with this package: `delays-1` or `delays-2`."""
    text = files(__package__ or "").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    return read_document(text, name=None, sites=[]).spec


async def apply(bus: Bus, spec: PipelineSpec) -> ApplyView:
    """Make the pipeline be as described. Raises `TowpathError` (failed) naming the jobs that are not."""
    view = await bus.request(ApplyPipeline(spec=spec), deadline_s=APPLY_S, attempt_s=ATTEMPT_S)
    check_applied(view)
    return view


async def plan(bus: Bus, spec: PipelineSpec) -> PipelinePlan:
    """Return the changes that `apply` would make."""
    return await bus.request(PlanPipeline(spec=spec), deadline_s=LOOK_S, attempt_s=LOOK_ATTEMPT_S)
