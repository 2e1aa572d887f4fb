"""User code of a pipeline's jobs: tried before anything of the pipeline is touched."""

from __future__ import annotations

from towpath.contracts.errors import ErrorDetail, TowpathError
from towpath.contracts.operators import Python
from towpath.contracts.pipeline import PipelineSpec
from towpath.coordinator.world import World


async def tried_code(spec: PipelineSpec, world: World) -> tuple[dict[str, str], list[ErrorDetail]]:
    """Job → digest of its code, for those that bring code; and what is wrong with the others'.

    Each entry point is imported in a process that is thrown away; one that was tried before is not tried
    again.
    """
    digests: dict[str, str] = {}
    wrong: list[ErrorDetail] = []
    for position, job in enumerate(spec.jobs):
        if not isinstance(job.operator, Python):
            continue
        try:
            digest = await world.artefacts.tried(job.job_spec())
        except TowpathError as error:
            field = f"jobs[{position}].{error.detail.field or 'operator'}"
            wrong.append(error.detail.model_copy(update={"field": field}))
        else:
            if digest is not None:
                digests[job.name] = digest
    return digests, wrong
