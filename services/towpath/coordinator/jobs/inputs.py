"""The inputs of a changed job: those it keeps, and those it reads to their end."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.composition.adjustments import SAID_OF_AN_INPUT
from towpath.contracts.data_plane import DEVICE_STREAMS
from towpath.contracts.job import JobSpec, ResolvedInput
from towpath.coordinator.jobs.topics import pin_latest, resolve_inputs, written
from towpath.coordinator.registry.uplinks import UplinkStore
from towpath.coordinator.situation import Situation
from towpath.protocols.record import JobEntry


async def inputs_after(
    spec: JobSpec, before: JobEntry, jobs: Mapping[str, JobEntry], situation: Situation
) -> list[ResolvedInput]:
    """Return the streams that a changed job reads; those of `before`, if it reads the same.

    `jobs` are all jobs as they will be. A stream that stays goes on at its position; a new topic begins where
    its `start` says. A further stream of a topic that the job reads already is read from its beginning,
    because its events came after those of the other streams, or beside them. Raises `TowpathError`: see
    `resolve_inputs`; also when a site does not answer.
    """
    old = {entry.place: entry for entry in before.inputs}
    known_topics = {wanted.name for wanted in before.spec.inputs}
    resolved = resolve_inputs(spec, jobs, (await UplinkStore(situation.registry).all()).values())
    fresh = [entry for entry in resolved if entry.place not in old]
    going_on = [entry for entry in fresh if entry.name.split("#")[0] in known_topics]
    new = [entry for entry in fresh if entry not in going_on]
    begun = {entry.place: entry for entry in await pin_latest(situation.bus, spec, new)}
    begun |= {entry.place: entry.model_copy(update={"after_serial": None}) for entry in going_on}
    inputs = [
        begun.get(entry.place) or _going_on(old[entry.place], entry, name=entry.name) for entry in resolved
    ]
    return before.inputs if inputs == before.inputs else inputs


def in_the_same_streams(before: JobEntry, inputs: list[ResolvedInput]) -> list[ResolvedInput]:
    """Return the inputs of a changed job that reads the streams of `before`: their names stay."""
    pairs = zip(before.inputs, inputs, strict=True)
    return [_going_on(old, changed, name=old.name) for old, changed in pairs]


def _going_on(old: ResolvedInput, changed: ResolvedInput, *, name: str) -> ResolvedInput:
    """Return an input where it stands, with what else its job now says of it."""
    said = {field: getattr(changed, field) for field in SAID_OF_AN_INPUT}
    return old.model_copy(update={"name": name, "current_site": changed.current_site, **said})


def ended(before: JobEntry, inputs: list[ResolvedInput], jobs: Mapping[str, JobEntry]) -> list[str]:
    """Return the inputs that the changed job gives up, and that no job writes any more.

    Their writer was removed or redirected. The job reads them to their end first, so that nothing is lost."""
    kept, live = {entry.place for entry in inputs}, written(jobs)
    return [
        entry.name
        for entry in before.inputs
        if entry.place not in kept
        and entry.stream not in DEVICE_STREAMS
        and (entry.site, entry.stream) not in live
    ]
