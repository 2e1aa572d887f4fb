"""The inputs of a changed job: what it read before, it reads on, or to its end."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.contracts.errors import TowpathError
from towpath.contracts.job import JobSpec, ResolvedInput
from towpath.coordinator.topics import last_serial, pin_latest, resolve_inputs, written
from towpath.coordinator.world import World
from towpath.mesh.names import IN_STREAM
from towpath.protocols.record import JobEntry

Place = tuple[str, str, str | None]


def place_of(entry: ResolvedInput) -> Place:
    """What makes two inputs the same: site, stream, subject."""
    return entry.site, entry.stream, entry.subject


async def inputs_after(
    spec: JobSpec, before: JobEntry, jobs: Mapping[str, JobEntry], world: World
) -> list[ResolvedInput]:
    """The streams of a changed job; those of `before`, if it reads the same.

    `jobs` are all jobs as they will be. What stays goes on where it stands; what is new begins where its
    `start` says. A stream that nobody writes any more, because its writer was removed or redirected, is
    read to its end: none of it is lost, whichever of the two changes comes first.

    Raises `TowpathError`: see `resolve_inputs`; a site that does not answer.
    """
    old = {place_of(entry): entry for entry in before.inputs}
    resolved = resolve_inputs(spec, jobs)
    fresh = [entry for entry in resolved if place_of(entry) not in old]
    pinned = {place_of(entry): entry for entry in await pin_latest(world.bus, spec, fresh)}
    inputs = [
        pinned.get(place_of(entry))
        or entry.model_copy(update={"after_serial": old[place_of(entry)].after_serial})
        for entry in resolved
    ]
    names = {entry.name for entry in inputs}
    for entry in await _ending(before, {place_of(i) for i in inputs}, jobs, world):
        inputs.append(entry.model_copy(update={"name": _free(entry, names)}))
        names.add(inputs[-1].name)
    return before.inputs if inputs == before.inputs else inputs


async def _ending(
    before: JobEntry, kept: set[Place], jobs: Mapping[str, JobEntry], world: World
) -> list[ResolvedInput]:
    """Old inputs that get nothing new, and are not read to their end yet."""
    live = written(jobs)
    over = [
        entry
        for entry in before.inputs
        if place_of(entry) not in kept
        and entry.stream != IN_STREAM
        and (entry.site, entry.stream) not in live
    ]
    return [entry for entry in over if not await _is_read(entry, before, world)]


async def _is_read(entry: ResolvedInput, before: JobEntry, world: World) -> bool:
    status = world.sites.job(before.site, before.spec.name)
    serial = status.serials.get(entry.name) if status else None
    try:
        last = await last_serial(world.bus, entry.site, entry.stream)
    except TowpathError:
        return False  # Its site is away: what is there will come.
    return last == 0 or (serial is not None and serial >= last)


def _free(entry: ResolvedInput, names: set[str]) -> str:
    """The input's name, or one with its stream where somebody else has that name by now."""
    return entry.name if entry.name not in names else f"{entry.name.split('#')[0]}#{entry.stream}"
