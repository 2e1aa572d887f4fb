"""Commands become operations: everything is validated here, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from towpath.bus import Bus
from towpath.contracts.commands import (
    DeployJob,
    MigrateJob,
    OperationKind,
    RemoveJob,
    StrategyName,
    UpdateJob,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.message import Command, new_identifier, now
from towpath.contracts.operators import STATEFUL_KINDS
from towpath.coordinator.registry import Registry
from towpath.coordinator.schemas import check_readers
from towpath.coordinator.sites import Sites
from towpath.coordinator.topics import pin_latest, readers, resolve_inputs, resolve_output
from towpath.operators.state_compatibility import is_state_compatible
from towpath.protocols.record import JobEntry, OperationRecord


class Nothing(Exception):
    """The command asks for what already is: there is nothing to do."""


@dataclass(frozen=True)
class World:
    """What a decision looks at."""

    registry: Registry
    sites: Sites
    bus: Bus


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
        await _check_free(spec.name, world)
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
    return _record(
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
    before = _entry(jobs, command.spec.name, "name")
    spec = _stationary(command.spec, before)
    if spec == before.spec:
        raise Nothing
    await _check_free(spec.name, world)
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
        generation=before.generation + (0 if survives and not command.drop_state else 1),
        inputs=inputs,
        output=resolve_output(spec),
    )
    return _record(command, OperationKind.UPDATE, spec.name, before=before, after=after)


async def plan_remove(command: RemoveJob, world: World) -> OperationRecord:
    """Raises `TowpathError` when the job cannot be removed."""
    jobs = await world.registry.jobs()
    before = _entry(jobs, command.job, "job")
    await _check_free(command.job, world)
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
    return _record(command, OperationKind.REMOVE, command.job, before=before, purge=command.purge)


async def plan_migrate(command: MigrateJob, world: World) -> OperationRecord:
    """Raises `TowpathError` when the job cannot be moved there now."""
    jobs = await world.registry.jobs()
    before = _entry(jobs, command.job, "job")
    world.sites.check_known(command.to, "to")
    await _check_free(command.job, world)
    if command.to == before.site:
        others = [name for name in world.sites.names if name != before.site]
        raise TowpathError(
            ErrorCode.ALREADY_THERE, "the job runs there", field="to", value=command.to, allowed=others
        )
    await world.sites.check_up(command.to, "to")
    await world.sites.check_up(before.site, "job")
    await world.sites.check_up(before.output.site, "job")
    generation = before.generation + (1 if command.strategy is StrategyName.RESTART else 0)
    after = before.model_copy(
        update={"site": command.to, "epoch": before.epoch + 1, "generation": generation, "running": True}
    )
    return _record(
        command,
        OperationKind.MIGRATE,
        command.job,
        before=before,
        after=after,
        strategy=command.strategy,
        progress=_progress(command.job, before, world),
    )


def _progress(job: str, entry: JobEntry, world: World) -> dict[str, int]:
    """What the owner said it has processed; nothing if it spoke of an earlier job of that name."""
    status = world.sites.job(entry.site, job)
    return status.serials if status is not None and status.epoch == entry.epoch else {}


def _record(
    command: Command[Any],
    kind: OperationKind,
    job: str,
    *,
    before: JobEntry | None = None,
    after: JobEntry | None = None,
    old_epoch: int | None = None,
    **fields: Any,
) -> OperationRecord:
    epoch = before.epoch if before else old_epoch or 0
    return OperationRecord(
        id=new_identifier(),
        command=command.id,
        kind=kind,
        job=job,
        before=before,
        after=after,
        old_epoch=epoch,
        new_epoch=after.epoch if after else epoch + 1,
        begun_at=now(),
        **fields,
    )


def _entry(jobs: Mapping[str, JobEntry], job: str, field: str) -> JobEntry:
    if job not in jobs:
        raise TowpathError(ErrorCode.UNKNOWN_JOB, "no such job", field=field, value=job, allowed=sorted(jobs))
    return jobs[job]


async def _check_free(job: str, world: World) -> None:
    holder = (await world.registry.locks()).get(job)
    if holder is not None:
        raise TowpathError(
            ErrorCode.BUSY,
            f"operation {holder} on this job is under way",
            field="job",
            value=job,
            allowed=f"when operation {holder} has ended",
        )


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
    check_readers(spec, jobs)
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
