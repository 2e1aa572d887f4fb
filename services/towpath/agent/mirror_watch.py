"""See to it that mirrors at this site hold the events of their origins, and get new ones."""

from __future__ import annotations

import asyncio
import logging

from nats.errors import Error as NatsError

from towpath.agent.jobs import Jobs
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import ResolvedInput
from towpath.streams.mirrors import MirrorSpec

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0

LOOK_AGAIN_S = 1.0
"""Pause while an origin is out of reach, or does not feed its mirror: its link may come back for a short time
only. So often, this site's server is asked in a single request if all mirrors are fed."""


async def watch(jobs: Jobs) -> None:
    """Compare all mirrors that jobs here read with their origins, until cancelled."""
    left_s = LOOK_EVERY_S
    while True:
        await asyncio.sleep(LOOK_AGAIN_S)
        left_s -= LOOK_AGAIN_S
        if left_s <= 0 or await _are_stalled(jobs):
            left_s = LOOK_EVERY_S if await look(jobs) else LOOK_AGAIN_S


async def _are_stalled(jobs: Jobs) -> bool:
    try:
        inputs = [entry for assignment in jobs.assignments.values() for entry in assignment.inputs]
        return await jobs.streams.mirrors.are_stalled(inputs)
    except (NatsError, OSError, TimeoutError) as error:
        log.debug("this site's mirrors cannot be asked: %s", error)
        return False


async def look(jobs: Jobs) -> bool:
    """Compare all mirrors that jobs here read with their origins. Return False if one is out of reach."""
    looks = [_look(jobs, entry, processed) for entry, processed in await _read_here(jobs)]
    # At once: an origin that is away must not hold up the others.
    return all(await asyncio.gather(*looks))


async def _look(jobs: Jobs, entry: ResolvedInput, processed: int) -> bool:
    """Return False if the origin is out of reach."""
    try:
        await jobs.streams.mirrors.renew(entry, processed)
    except (TowpathError, NatsError, OSError, TimeoutError) as error:
        log.debug("the mirror of %s at %s cannot be compared: %s", entry.stream, entry.origin, error)
        return False
    return True


async def _read_here(jobs: Jobs) -> list[tuple[ResolvedInput, int]]:
    """Return the inputs of other sites' streams, and up to which serial number they are processed.

    Where jobs share a stream, it is the input that looks back the farthest, and what all of them processed.
    If one was told that the stream goes on elsewhere, that holds for all. A stream that a job reads whose
    position is not known now is left out: a mirror that is made again must not begin behind it.
    """
    found: dict[tuple[str, str], tuple[ResolvedInput, int]] = {}
    unknown: set[tuple[str, str]] = set()
    for job, assignment in list(jobs.assignments.items()):
        away = [entry for entry in assignment.inputs if MirrorSpec.of(entry, jobs.streams.site)]
        try:
            position = await asyncio.to_thread(jobs.position, assignment) if away else {}
        except (OSError, ValueError) as error:  # The checkpoint is just changing.
            log.debug("the position of %s is not known: %s", job, error)
            unknown |= {(entry.site, entry.stream) for entry in away}
            continue
        for entry in away:
            here, place = position.get(entry.name, 0), (entry.site, entry.stream)
            known, processed = found.get(place, (entry, here))
            reader = max(known, entry, key=lambda one: one.repeats_within)
            reader = reader.model_copy(update={"current_site": known.current_site or entry.current_site})
            found[place] = reader, min(processed, here)
    return [reader for place, reader in found.items() if place not in unknown]
