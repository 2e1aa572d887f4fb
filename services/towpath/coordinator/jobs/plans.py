"""Plan the operations for new, changed and removed jobs. All checks come before anything is written."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.composition.adjustments import complete, state_is_lost, stationary
from towpath.composition.difference import with_path_of
from towpath.composition.job_changes import is_live, is_state_compatible
from towpath.composition.schemas import check_readers
from towpath.contracts.commands import DeployJob, OperationKind, RemoveJob, StrategyName, UpdateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec, ResolvedInput
from towpath.coordinator.artefacts import brought_code
from towpath.coordinator.auto_sites import with_site
from towpath.coordinator.jobs.inputs import ended, in_the_same_streams, inputs_after
from towpath.coordinator.jobs.readers import check_served, is_behind
from towpath.coordinator.jobs.topics import (
    described_now,
    pin_latest,
    readers,
    resolve_inputs,
    resolve_output,
)
from towpath.coordinator.registry.uplinks import UplinkStore
from towpath.coordinator.situation import Situation, Upcoming, check_free, entry_of, record_of
from towpath.operators.kind import keeps_state
from towpath.protocols.record import FormerJob, JobEntry, OperationRecord
from towpath.protocols.table import strategies


class Nothing(Exception):
    """There is nothing to do: the job is already as the command asks."""


async def plan_deploy(
    command: DeployJob, situation: Situation, upcoming: Upcoming | None = None
) -> OperationRecord:
    """Plan a deploy. Raises `Nothing` when this job runs already, `TowpathError` when it is refused."""
    upcoming = upcoming or Upcoming()
    jobs = await situation.registry.jobs()
    check_replicas(command.spec)
    placed, why = await with_site(command.spec, jobs, situation)
    spec = complete(placed)
    artefact = upcoming.artefacts.get(spec.name) or await situation.artefacts.stored(spec)
    await _check_name(spec, artefact, jobs, situation, upcoming.pipeline)
    await situation.sites.check_up(spec.site, "site")
    await situation.sites.check_up(spec.output_site, "output.site")
    _check_standby(spec, situation)
    await _check_input_sites(spec, situation)
    uplinks = (await UplinkStore(situation.registry).all()).values()
    inputs = await pin_latest(situation.bus, spec, resolve_inputs(spec, upcoming.of(jobs), uplinks))
    former = await situation.registry.former(spec.name)
    after = new_entry(spec, former, inputs, upcoming.pipeline).model_copy(update={"artefact": artefact})
    # Also for a pipeline: readers may have come since the pipeline was checked.
    check_served(after, jobs, upcoming)
    return record_of(
        command,
        OperationKind.DEPLOY,
        spec.name,
        after=after,
        old_epoch=after.epoch - 1,
        note=why,
        # A pipeline's outputs are prepared, and may have readers, which keep their positions in them.
        output_existed=upcoming.pipeline is not None
        or (former is not None and former.output == after.output),
    )


def check_replicas(spec: JobSpec) -> None:
    """Raise `TowpathError` (not allowed) when a job asks for a second run that it cannot have."""
    if spec.qos is None or spec.qos.replicas != "auto":
        return
    why = strategies()[StrategyName.TWIN].obstacle(spec)
    if why is not None:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{spec.name} cannot have a second run: {why}",
            field="qos.replicas",
            value="auto",
            allowed="none",
        )


async def _check_name(
    spec: JobSpec,
    artefact: str | None,
    jobs: Mapping[str, JobEntry],
    situation: Situation,
    pipeline: str | None,
) -> None:
    existing = jobs.get(spec.name)
    if existing is None:
        return await check_free(spec.name, situation)
    same_code = artefact is not None and artefact == existing.artefact
    wanted = with_path_of(spec, existing.spec) if same_code else spec
    is_the_one = (existing.spec, existing.artefact) == (wanted, artefact)
    if is_the_one and existing.running and pipeline in (None, existing.pipeline):
        raise Nothing
    await check_free(spec.name, situation)
    raise TowpathError(
        ErrorCode.NAME_IN_USE,
        "another job has this name",
        field="name",
        value=spec.name,
        allowed="a free name; `update` changes the job, `remove` frees the name",
    )


def _check_standby(spec: JobSpec, situation: Situation) -> None:
    """Raise `TowpathError` (unknown site) for a standby that there is not. One that is down may come back."""
    if spec.standby is not None:
        situation.sites.check_known(spec.standby.site, "standby.site")


def new_entry(
    spec: JobSpec, former: FormerJob | None, inputs: list[ResolvedInput], pipeline: str | None = None
) -> JobEntry:
    """Return the entry of a new job. `former` are the remains of an earlier job of that name."""
    output = resolve_output(spec, former.output if former else None)
    left = [*former.closed, former.output] if former and former.output else (former.closed if former else [])
    return JobEntry(
        spec=spec,
        site=spec.site,
        epoch=(former.epoch if former else 0) + 1,
        inputs=inputs,
        output=output,
        closed=[one for one in left if one != output],
        pipeline=pipeline,
    )


async def plan_update(
    command: UpdateJob, situation: Situation, upcoming: Upcoming | None = None
) -> OperationRecord:
    """Plan an update. Raises `Nothing` when the job is already so, `TowpathError` when it is refused."""
    jobs = await situation.registry.jobs()
    before = entry_of(jobs, command.spec.name, "name")
    spec = stationary(command.spec, before.spec, before.site)
    check_replicas(spec)
    _check_standby(spec, situation)
    artefact = await _code(spec, before, command, situation, upcoming)
    if artefact is not None and artefact == before.artefact:
        spec = with_path_of(spec, before.spec)
    unchanged = (spec, artefact) == (before.spec, before.artefact)
    if unchanged and upcoming is None and not is_behind(before, jobs):
        raise Nothing
    await check_free(spec.name, situation)
    output_lost = command.force and await situation.sites.is_down(before.output.site)
    await _check_sites(spec, before, situation, output_lost=output_lost)
    coming = (upcoming or Upcoming()).of(jobs)
    after = changed_entry(spec, before).model_copy(update={"artefact": artefact})
    _check_audience(after, before, coming, whole=upcoming is not None)
    check_served(after, jobs, upcoming or Upcoming())
    inputs = await inputs_after(spec, before, coming, situation)
    if inputs == before.inputs and after == before.at_epoch(after.epoch):
        raise Nothing
    same_inputs = [i.place for i in inputs] == [i.place for i in before.inputs]
    compatible = artefact == before.artefact and is_state_compatible(before.spec, spec)
    _check_state(command, before, survives=compatible)
    if same_inputs and artefact == before.artefact and is_live(before.spec, spec) and before.running:
        return record_of(
            command, OperationKind.UPDATE, spec.name, before=before, after=_adjusted(before, spec)
        )
    stateful = keeps_state(spec.operator)
    goes_on = same_inputs and compatible and not command.drop_state
    return record_of(
        command,
        OperationKind.UPDATE,
        spec.name,
        before=before,
        after=after.model_copy(
            update={
                "inputs": in_the_same_streams(before, inputs) if same_inputs else inputs,
                "generation": before.generation + (0 if goes_on else 1),
            }
        ),
        keeps_state=stateful and compatible and not same_inputs and not command.drop_state,
        drain_inputs=ended(before, inputs, coming),
        output_lost=output_lost,
    )


async def _check_sites(spec: JobSpec, before: JobEntry, situation: Situation, *, output_lost: bool) -> None:
    """Raise `TowpathError` if a site is down that the update needs."""
    await situation.sites.check_up(before.site, "site")
    if not output_lost:
        await situation.sites.check_up(before.output.site, "output.site")
    await situation.sites.check_up(spec.output_site, "output.site")
    await _check_input_sites(spec, situation)


async def _code(
    spec: JobSpec, before: JobEntry, command: UpdateJob, situation: Situation, upcoming: Upcoming | None
) -> str | None:
    """Return the digest of the changed job's code: as decided before, as it is, or of the present files."""
    decided = upcoming.artefacts.get(spec.name) if upcoming else None
    if decided is None and command.keep_code and brought_code(spec) is not None:
        decided = before.artefact
    return decided or await situation.artefacts.stored(spec)


def _adjusted(before: JobEntry, spec: JobSpec) -> JobEntry:
    """Return the job with a new description that the running query can be told."""
    return before.model_copy(update={"spec": spec, "revision": before.revision + 1})


def changed_entry(spec: JobSpec, before: JobEntry) -> JobEntry:
    """Return the job with another description and its present inputs."""
    output = resolve_output(spec, before.output)
    closed = [*before.closed, before.output] if output != before.output else before.closed
    owned = before.at_epoch(before.next_epoch())
    return owned.model_copy(update={"spec": spec, "output": output, "closed": closed})


async def plan_remove(command: RemoveJob, situation: Situation) -> OperationRecord:
    """Plan a remove. Raises `TowpathError` when the job cannot be removed."""
    jobs = await situation.registry.jobs()
    before = entry_of(jobs, command.job, "job")
    await check_free(command.job, situation)
    forced = command.force and await situation.sites.is_down(before.site)
    if forced and (command.purge or command.drain):
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"site {before.site} is down: nothing can be processed or deleted there",
            field="force",
            value=True,
            allowed="purge = false, and drain = false",
        )
    if not forced:
        await situation.sites.check_up(before.site, "job")
    if command.purge:
        await situation.sites.check_up(before.output.site, "purge")
        reading = readers(jobs, command.job)
        if reading:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"{', '.join(reading)} read(s) what this job wrote",
                field="purge",
                value=True,
                allowed=f"false, or remove {', '.join(reading)} first",
            )
    return record_of(
        command,
        OperationKind.REMOVE,
        command.job,
        before=before,
        purge=command.purge,
        drain=command.drain,
        forced=forced,
    )


async def _check_input_sites(spec: JobSpec, situation: Situation) -> None:
    for position, wanted in enumerate(spec.inputs):
        situation.sites.check_known(wanted.site, f"inputs.{position}.site")


def _check_audience(
    after: JobEntry, before: JobEntry, coming: Mapping[str, JobEntry], *, whole: bool
) -> None:
    """Raise `TowpathError` when jobs that read the results could not read the changed ones.

    With `whole`, `coming` has all jobs as they will be: readers of the old topic change, too.
    """
    spec = after.spec
    jobs = {**coming, spec.name: after}
    check_readers(described_now(jobs), spec.name)
    reading = [] if whole else readers({**coming, spec.name: before}, spec.name)
    if reading and after.output != before.output:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{', '.join(reading)} read(s) the topics of this job",
            field="output.topic",
            value=after.output.topic,
            allowed=[before.output.topic, "another one, in a pipeline that changes the readers as well"],
        )


def _check_state(command: UpdateJob, before: JobEntry, *, survives: bool) -> None:
    stateful = keeps_state(before.spec.operator)
    if survives or command.drop_state or not stateful:
        return
    raise state_is_lost(
        before.spec.name, "the same computation, or drop_state = true to begin with empty state"
    )
