"""Try the user code of a pipeline's jobs before anything of the pipeline changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from nats.errors import Error as NatsError

from towpath.composition.difference import with_path_of
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.message import new_identifier
from towpath.contracts.pipeline import PipelineJob, PipelineSpec
from towpath.contracts.site import SiteState
from towpath.contracts.site_commands import TryCode
from towpath.coordinator.pipelines.records import ApplyRecord
from towpath.coordinator.situation import Situation
from towpath.operators.kind import user_code
from towpath.protocols.record import JobEntry

log = logging.getLogger(__name__)

TRY_S = 30.0
"""Time for a site to fetch code and try it: two entry points at a time, 15 s each at most."""

AT_ONCE = 4
"""Artefacts that are packed and stored at the same time: each is in memory meanwhile."""


async def tried_code(
    spec: PipelineSpec,
    situation: Situation,
    running: Mapping[str, JobEntry],
    kept: Mapping[str, str],
    newest: ApplyRecord | None = None,
) -> tuple[dict[str, str], list[ErrorDetail]]:
    """Return the digest of each job's code, and the errors of code that cannot be used.

    Each entry point is imported in a process of its own: here, or at the job's site if only that can do it.
    Code that was tried before is not tried again. `kept` is the code of an earlier apply, by job: it was
    tried then, and the hub must still have it. A `running` job of the pipeline keeps its code if there is
    none at its path any more, and its operator is the same as before or as in the `newest` apply.
    """
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(position: int, job: PipelineJob) -> str | ErrorDetail | None:
        async with slots:
            try:
                entry = running.get(job.name)
                stays = entry is not None and _stays(job, entry, newest)
                return await _digest(job, situation, entry, kept.get(job.name), stays=stays)
            except TowpathError as error:
                field = f"jobs[{position}].{error.detail.field or 'operator'}"
                return error.detail.model_copy(update={"field": field})

    with_code = {n: job for n, job in enumerate(spec.jobs) if user_code(job.operator) is not None}
    outcomes = await asyncio.gather(*(one(n, job) for n, job in with_code.items()))
    by_job = dict(zip((job.name for job in with_code.values()), outcomes, strict=True))
    digests = {name: outcome for name, outcome in by_job.items() if isinstance(outcome, str)}
    return digests, [outcome for outcome in outcomes if isinstance(outcome, ErrorDetail)]


def _stays(job: PipelineJob, running: JobEntry, newest: ApplyRecord | None) -> bool:
    """Tell if the job's operator is the same as before.

    An apply that found the same code at another path changed nothing. So the path may differ from the
    registry's."""
    if running.spec.operator == job.operator:
        return True
    same_but_for_path = with_path_of(job.job_spec(), running.spec).operator == running.spec.operator
    if newest is None or not same_but_for_path or newest.artefacts.get(job.name) != running.artefact:
        return False
    return any(known.name == job.name and known.operator == job.operator for known in newest.spec.jobs)


async def _digest(
    job: PipelineJob, situation: Situation, running: JobEntry | None, kept: str | None, *, stays: bool
) -> str | None:
    if kept is not None:
        await situation.artefacts.check_kept(kept)
        return kept
    own = job.job_spec()
    if running is not None and stays and running.artefact is not None and not situation.artefacts.lies(own):
        return running.artefact
    digest = await situation.artefacts.tried(own)
    is_there = stays and running is not None and (running.site, running.artefact) == (job.site, digest)
    if not is_there and (digest is None or not situation.artefacts.can_try):
        await _try_at_site(job, digest, situation)
    return digest


async def _try_at_site(job: PipelineJob, digest: str | None, situation: Situation) -> None:
    """Let the job's site try code that cannot be tried here, because only the site has the environment.

    Raises `TowpathError` (invalid) when the code cannot be called there. A site that is down, or does not
    answer in time, tries the code when the job is deployed.
    """
    code = user_code(job.operator)
    assert code is not None, "other operators bring no code"
    if job.site not in situation.sites.names or situation.sites.state(job.site) is SiteState.DOWN:
        return
    question = TryCode(site=job.site, operation=f"try-{new_identifier()}", entry=code.entry, artefact=digest)
    try:
        await situation.bus.request(question, deadline_s=TRY_S, attempt_s=TRY_S)
    except (TowpathError, NatsError, OSError) as error:
        if isinstance(error, TowpathError) and error.detail.code is ErrorCode.INVALID:
            raise
        log.warning("code of %s was not tried at %s: %s", job.name, job.site, error)
