"""New, changed and removed jobs become operations: validated here, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.composition.schemas import check_readers
from towpath.contracts.commands import DeployJob, OperationKind, RemoveJob, UpdateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import STATEFUL_KINDS
from towpath.coordinator.topics import pin_latest, readers, resolve_inputs, resolve_output
from towpath.coordinator.world import World, check_free, entry_of, record_of
from towpath.operators.state_compatibility import is_state_compatible
from towpath.protocols.record import JobEntry, OperationRecord


class Nothing(Exception):
    """The command asks for what already is: there is nothing to do."""


def complete(spec: JobSpec, old: JobSpec | None = None) -> JobSpec:
    """The spec with its output site spelled out, so that a later change of `site` does not move it."""
    site = spec.output.site or (old.output_site if old else spec.output_site)
    return spec.model_copy(update={"output": spec.output.model_copy(update={"site": site})})


async def plan_deploy(command: DeployJob, world: World) -> OperationRecord:
    """Raises `Nothing` when the very job runs already, `TowpathError` when it cannot be deployed."""
    spec = complete(command.spec)
    jobs = await world.registry.jobs()
    existing = jobs.get(spec.name)
    if existing is not None:
        if existing.spec == spec and existing.running:
            raise Nothing
        await check_free(spec.name, world)
        raise TowpathError(
            ErrorCode.NAME_IN_USE,
            "another job has this name",
            field="name",
            value=spec.name,
            allowed="a free name; `update` changes the job, `remove` frees the name",
        )
    await world.sites.check_up(spec.site, "site")
    await world.sites.check_up(spec.output_site, "output.site")
    await _check_input_sites(spec, world)
    inputs = await pin_latest(world.bus, spec, resolve_inputs(spec, jobs))
    former = await world.registry.former(spec.name)
    epoch = former.epoch if former else 0
    output = resolve_output(spec)
    kept = former.output if former else None
    after = JobEntry(spec=spec, site=spec.site, epoch=epoch + 1, inputs=inputs, output=output)
    return record_of(
        command,
        OperationKind.DEPLOY,
        spec.name,
        after=after,
        old_epoch=epoch,
        output_existed=kept is not None and kept.site == output.site,
    )


async def plan_update(command: UpdateJob, world: World) -> OperationRecord:
    """Raises `Nothing` when the job is already so, `TowpathError` when it cannot be changed so."""
    jobs = await world.registry.jobs()
    before = entry_of(jobs, command.spec.name, "name")
    spec = _stationary(command.spec, before)
    if spec == before.spec:
        raise Nothing
    await check_free(spec.name, world)
    await world.sites.check_up(before.site, "site")
    await world.sites.check_up(before.output.site, "output.site")
    await _check_input_sites(spec, world)
    # Where an input starts matters to a new job only.
    same_inputs = [i.name for i in spec.inputs] == [i.name for i in before.spec.inputs]
    inputs = before.inputs
    if same_inputs:
        resolve_inputs(spec, jobs)
    else:
        inputs = await pin_latest(world.bus, spec, resolve_inputs(spec, jobs))
    _check_audience(spec, before, jobs)
    survives = same_inputs and is_state_compatible(before.spec, spec)
    _check_state(command, before, survives=survives, same_inputs=same_inputs)
    after = JobEntry(
        spec=spec,
        site=before.site,
        epoch=before.next_epoch(),
        used_epoch=before.used_epoch,
        generation=before.generation + (0 if survives and not command.drop_state else 1),
        inputs=inputs,
        output=resolve_output(spec),
    )
    return record_of(command, OperationKind.UPDATE, spec.name, before=before, after=after)


async def plan_remove(command: RemoveJob, world: World) -> OperationRecord:
    """Raises `TowpathError` when the job cannot be removed."""
    jobs = await world.registry.jobs()
    before = entry_of(jobs, command.job, "job")
    await check_free(command.job, world)
    await world.sites.check_up(before.site, "job")
    if command.purge:
        await world.sites.check_up(before.output.site, "purge")
        reading = readers(jobs, command.job)
        if reading:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"{', '.join(reading)} read(s) what this job wrote",
                field="purge",
                value=True,
                allowed=f"false, or remove {', '.join(reading)} first",
            )
    return record_of(command, OperationKind.REMOVE, command.job, before=before, purge=command.purge)


async def _check_input_sites(spec: JobSpec, world: World) -> None:
    for position, wanted in enumerate(spec.inputs):
        world.sites.check_known(wanted.site, f"inputs.{position}.site")


def _stationary(wanted: JobSpec, before: JobEntry) -> JobSpec:
    """The new spec at the old places. Raises `TowpathError` (not allowed) when it names others."""
    old = before.spec
    if wanted.site not in (old.site, before.site):
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "update does not change the site; `migrate` does",
            field="site",
            value=wanted.site,
            allowed=sorted({old.site, before.site}),
        )
    spec = complete(wanted, old).model_copy(update={"site": old.site})
    if spec.output_site != before.output.site:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the output of a running job stays at its site",
            field="output.site",
            value=spec.output_site,
            allowed=[before.output.site],
        )
    return spec


def _check_audience(spec: JobSpec, before: JobEntry, jobs: Mapping[str, JobEntry]) -> None:
    """Raise `TowpathError` when jobs that read the results could not read the changed ones."""
    check_readers({**jobs, spec.name: before.model_copy(update={"spec": spec})}, spec.name)
    reading, after = readers(jobs, spec.name), resolve_output(spec)
    if reading and after != before.output:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{', '.join(reading)} read(s) the topics of this job",
            field="output.topic",
            value=after.topic,
            allowed=[before.output.topic],
        )


def _check_state(command: UpdateJob, before: JobEntry, *, survives: bool, same_inputs: bool) -> None:
    stateful = before.spec.operator.kind in STATEFUL_KINDS
    if survives or command.drop_state or not stateful:
        return
    what = "operator" if same_inputs else "inputs"
    raise TowpathError(
        ErrorCode.NOT_ALLOWED,
        f"the state of {before.spec.name} does not survive this change of its {what}",
        field=what,
        allowed="the same computation over the same inputs, or drop_state = true to begin with empty state",
    )
