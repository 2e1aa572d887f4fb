"""Measures the way to a site or the hub by a command that comes back."""

from __future__ import annotations

import asyncio
import logging

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.contracts.errors import TowpathError
from towpath.contracts.metrics import Echo, EchoAnswer, Sample
from towpath.faults.clock import real_time
from towpath.telemetry.link_figures import measured
from towpath.telemetry.samples import samples_of

log = logging.getLogger(__name__)

ANSWER_S = 2.0
"""For one message there and back. What takes longer is no sample: the other side may be cut off."""


async def probe(bus: Bus, other: str) -> list[Sample]:
    """Samples of the way to a site or the hub; none when it does not answer in time.

    Never run two at a time: one would slow the other.
    """

    async def send(payload: str) -> EchoAnswer:
        async with asyncio.timeout(ANSWER_S):
            return await bus.request(Echo(site=other, payload=payload), deadline_s=ANSWER_S)

    try:
        values = await measured(send)
    except (TowpathError, TimeoutError, NatsError, OSError) as error:
        log.debug("no measure of the way to %s: %s", other, error)
        return []
    return samples_of(f"link:{other}", real_time(), values)


async def echo(command: Echo) -> EchoAnswer:
    """See `Echo`."""
    return EchoAnswer(payload=command.payload)
