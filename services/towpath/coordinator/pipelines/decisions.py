"""Plan an apply: check the pipeline and put its changes in order, before anything is written."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from towpath.composition.difference import difference, pinned, with_path_of
from towpath.composition.job_changes import is_state_compatible
from towpath.composition.schedule import in_order, makespan_s
from towpath.composition.validation import SiteFacts, problems
from towpath.contracts.commands import ForecastMigration, OperationKind, OperationState
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.pipeline import Action, ApplyState, PipelinePlan, PipelineSpec, PlannedChange
from towpath.contracts.site import SiteState
from towpath.coordinator.auto_sites import pipeline_with_sites, with_reason
from towpath.coordinator.jobs.topics import pipeline_with_current_sites, readers
from towpath.coordinator.migrations.planning import forecast_migration
from towpath.coordinator.pipelines.records import PipelineRecord
from towpath.coordinator.pipelines.room import promised, running_jobs
from towpath.coordinator.pipelines.upcoming import unserved_elsewhere
from towpath.coordinator.pipelines.user_code import tried_code
from towpath.coordinator.registry.pipelines import PipelineStore
from towpath.coordinator.situation import Situation
from towpath.operators.kind import keeps_state
from towpath.protocols.choice import choose
from towpath.protocols.record import JobEntry

KIND_OF = {
    Action.ADD: OperationKind.DEPLOY,
    Action.CHANGE: OperationKind.UPDATE,
    Action.REDIRECT: OperationKind.UPDATE,
    Action.REMOVE: OperationKind.REMOVE,
}

PLAIN_S = {OperationKind.DEPLOY: 1.0, OperationKind.UPDATE: 1.5, OperationKind.REMOVE: 0.8}
"""Seconds an operation takes on two cores with warm engines, before there is anything to learn from."""

LEARN_FROM = 200
"""Newest operations that are looked at."""


@dataclass(frozen=True)
class Decision:
    """A pipeline as described, and the changes that lead there."""

    spec: PipelineSpec
    """With all output sites named."""
    before: PipelineRecord | None
    changes: list[PlannedChange]
    """In order."""
    artefacts: Mapping[str, str]
    """Job → digest of its user code."""
    is_current: bool
    """True if the description, with its code, is the desired one already."""
    under_way: str | None = None
    """The apply that was under way at the decision: the decision does not know its changes since then."""

    @property
    def changes_nothing(self) -> bool:
        """True if all jobs stay as they are."""
        return all(change.actions == [Action.KEEP] for change in self.changes)

    @property
    def version(self) -> int:
        """The pipeline's next version."""
        current = self.before.version if self.before else 0
        return current if self.is_current else current + 1

    def plan(self, at_once: int) -> PipelinePlan:
        """Return the decision as users see it."""
        return PipelinePlan(
            pipeline=self.spec.name,
            version=self.version,
            changes=self.changes,
            predicted_s=round(makespan_s(self.changes, at_once), 2),
            predicted_bytes=sum(change.predicted_bytes for change in self.changes),
        )

    def check_follows(self, apply: str | None) -> None:
        """Raise `TowpathError` if the pipeline's newest apply is another one; None: any will do."""
        newest = self.before.apply if self.before else None
        if apply in (None, newest):
            return
        now = f"is at version {self.before.version} now" if self.before else "is gone"
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{self.spec.name} was changed meanwhile: it {now}",
            field="expected_apply",
            value=apply,
            allowed=f"{newest}: see what it is now, and send the command again",
        )


async def decide(
    spec: PipelineSpec,
    situation: Situation,
    store: PipelineStore,
    *,
    drop_state: list[str],
    delete: bool = False,
    kept: Mapping[str, str] | None = None,
) -> Decision:
    """Return the changes that make the pipeline be as described.

    A pipeline is deleted even if jobs elsewhere read its results, as a single job is. `kept` is the code of
    an earlier apply, job → digest: it is used as it was then, whatever is at its path now. Raises
    `TowpathError` (invalid) with all problems in `detail.errors`.
    """
    pipelines = await store.pipelines()
    before = pipelines.get(spec.name)
    applies = {name: await store.record(pipeline.apply) for name, pipeline in pipelines.items()}
    newest = applies.get(spec.name)
    jobs = await situation.registry.jobs()
    spec = pipeline_with_current_sites(spec, jobs)
    running = running_jobs(jobs, applies.values())
    mine = {name: job for name, job in running.items() if job.pipeline == spec.name}
    others = {name: job for name, job in running.items() if job.pipeline != spec.name}
    spec, reasons = await pipeline_with_sites(spec, mine, situation)
    sites = {
        s: SiteFacts(await _is_up(s, situation), situation.sites.capacity(s)) for s in situation.sites.names
    }
    coming = promised(jobs, applies.values(), spec.name)
    code, bad_code = await tried_code(
        spec, situation, {name: jobs[name] for name in mine}, kept or {}, newest
    )
    wrong = problems(spec, sites=sites, mine=mine, others=others, promised=coming, artefacts=code)
    wrong += [*_unsuitable(spec), *bad_code, *_state_lost(spec, jobs, drop_state, code)]
    wrong += [] if delete else await unserved_elsewhere(spec, jobs, situation.registry)
    if wrong:
        raise refusal(wrong)
    wanted = pinned(spec, mine)
    usual_s = await _usual_s(situation)
    changes = [
        with_reason(await _predicted(c, wanted, situation, usual_s), reasons)
        for c in in_order(difference(wanted, mine, others, code))
    ]
    under_way = newest.id if newest is not None and newest.state is ApplyState.RUNNING else None
    is_current = newest is not None and newest.spec == wanted and _same_code(newest.artefacts, code)
    return Decision(wanted, before, changes, code, is_current, under_way)


def read_elsewhere(pipeline: str, jobs: Mapping[str, JobEntry]) -> list[str]:
    """Return the jobs outside a pipeline that read results of its jobs."""
    mine = [name for name, entry in jobs.items() if entry.pipeline == pipeline]
    return sorted({r for name in mine for r in readers(jobs, name) if jobs[r].pipeline != pipeline})


async def _is_up(site: str, situation: Situation) -> bool:
    try:
        await situation.sites.check_up(site, "site")
    except TowpathError:
        return False
    return situation.sites.state(site) is not SiteState.DOWN


def _unsuitable(spec: PipelineSpec) -> Iterator[ErrorDetail]:
    """Return errors for strategies that cannot move their jobs, now or later."""
    for position, job in enumerate(spec.jobs):
        try:
            choose(job, job.strategy)
        except TowpathError as error:
            yield error.detail.model_copy(update={"field": f"jobs[{position}].strategy"})


def _state_lost(
    spec: PipelineSpec, jobs: Mapping[str, JobEntry], drop_state: list[str], code: Mapping[str, str]
) -> list[ErrorDetail]:
    """Return errors for jobs whose state would be lost in their change without permission."""
    wrong: list[ErrorDetail] = []
    for position, wanted in enumerate(spec.jobs):
        before = jobs.get(wanted.name)
        if before is None or before.pipeline != spec.name or wanted.name in drop_state:
            continue
        stateful = keeps_state(before.spec.operator)
        digest = code.get(wanted.name)
        own = with_path_of(wanted, before.spec) if digest is not None else wanted
        if stateful and not (digest == before.artefact and is_state_compatible(before.spec, own)):
            wrong.append(
                ErrorDetail(
                    code=ErrorCode.NOT_ALLOWED,
                    message=f"the state of {wanted.name} does not survive this change",
                    field=f"jobs[{position}].operator",
                    allowed=f"the same computation, or {wanted.name} in `drop_state`",
                )
            )
    return wrong


def _same_code(known: Mapping[str, str], code: Mapping[str, str]) -> bool:
    """Tell if every job's code is the known one."""
    return all(known.get(job, digest) == digest for job, digest in code.items())


def refusal(wrong: list[ErrorDetail]) -> TowpathError:
    """Return one error that has all of them."""
    first = wrong[0]
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    code = first.code if len({error.code for error in wrong}) == 1 else ErrorCode.INVALID
    return TowpathError(
        code,
        f"{first.message}{more}",
        field=first.field,
        value=first.value,
        allowed=first.allowed,
        errors=wrong,
    )


async def _usual_s(situation: Situation) -> dict[OperationKind, float]:
    """Return the seconds that operations have taken lately, by kind."""
    took: dict[OperationKind, list[float]] = {kind: [] for kind in PLAIN_S}
    for record in await situation.registry.latest(LEARN_FROM):
        completed = record.state is OperationState.COMPLETED
        if record.kind in took and completed and record.ended_at is not None:
            took[record.kind].append((record.ended_at - record.begun_at).total_seconds())
    return {kind: statistics.median(all_s) if all_s else PLAIN_S[kind] for kind, all_s in took.items()}


async def _predicted(
    change: PlannedChange, spec: PipelineSpec, situation: Situation, usual_s: Mapping[OperationKind, float]
) -> PlannedChange:
    """Return the change with its forecast. A move's own forecast decides on its strategy."""
    kinds = {KIND_OF[action] for action in change.actions if action in KIND_OF}
    total_s, state_bytes, strategy = sum(usual_s[kind] for kind in kinds), 0, None
    if Action.MOVE in change.actions:
        wanted = next(job for job in spec.jobs if job.name == change.job)
        question = ForecastMigration(job=change.job, to=wanted.site, strategy=wanted.strategy)
        expected = await forecast_migration(question, situation, wanted.job_spec())
        total_s, state_bytes = total_s + expected.total_s, expected.state_bytes
        strategy = expected.strategy
    return change.model_copy(
        update={
            "predicted_s": round(total_s, 2),
            "predicted_bytes": state_bytes,
            "strategy": strategy,
        }
    )
