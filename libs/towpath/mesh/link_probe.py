"""Measure latency and bandwidth to a site or the hub by a command that comes back."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median
from time import monotonic, time

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.contracts.errors import TowpathError
from towpath.contracts.metrics import Echo, EchoAnswer, Sample
from towpath.telemetry.intervals import BANDWIDTH_INTERVAL_S, LONGEST_BANDWIDTH_INTERVAL_S, samples_of

log = logging.getLogger(__name__)

SMALL_PROBES = 5
"""Round trips of which the median counts: one that waits behind a checkpoint says nothing of the link."""

LARGE_BYTES = 64 * 1024

ALIKE = 3.0
"""Greatest factor between two measurements of a link that has stayed as it is: small times are noisy."""

LEAST_CHANGE_S = 0.01
"""Least difference of round trips that says something of a link, and not of the machines at its ends."""

Send = Callable[[str], Awaitable[object]]
"""Send a text and return when it has come back; raise when it does not."""

ANSWER_S = 2.0
"""Time for a small message there and back. A longer time is no sample: the other side may be cut off."""

LARGE_S = 10.0
"""Time for the large message there and back: over 0.15 Mbit/s it comes back in time."""

_FAILURES = (TowpathError, TimeoutError, NatsError, OSError)


@dataclass
class _Link:
    """The bandwidth of a link, as far as it is known, and when it is measured next."""

    due: float = 0.0
    """By the monotonic clock."""
    measured_at: float = 0.0
    interval_s: float = BANDWIDTH_INTERVAL_S
    bandwidth: float | None = None
    """By the last large message. None: it did not come back."""
    round_trip_s: float = 0.0
    """Measured together with it."""

    def see(self, round_trip_s: float, bandwidth: float | None) -> None:
        """Take over a measurement with a large message."""
        is_lost_again = bandwidth is None and self.bandwidth is None and self.measured_at > 0
        if bandwidth is None and not is_lost_again:
            self.interval_s = 0.0  # It may have met a cut.
        elif self.bandwidth is not None and bandwidth is not None and _alike(bandwidth, self.bandwidth):
            self.interval_s = min(2 * self.interval_s, LONGEST_BANDWIDTH_INTERVAL_S)
        else:
            self.interval_s = BANDWIDTH_INTERVAL_S
        self.bandwidth, self.round_trip_s, self.measured_at = bandwidth, round_trip_s, monotonic()
        self.due = self.measured_at + self.interval_s

    def see_round_trip(self, round_trip_s: float) -> None:
        """Measure a link soon whose round trip says that it is another one than before."""
        differs_by_s = abs(round_trip_s - self.round_trip_s)
        if differs_by_s > LEAST_CHANGE_S and not _alike(round_trip_s, self.round_trip_s):
            self.due = min(self.due, self.measured_at + BANDWIDTH_INTERVAL_S)


def _alike(one: float, other: float) -> bool:
    return 1 / ALIKE < one / max(other, 1e-9) < ALIKE


class LinkProbe:
    """Measures the links to others, one after the other: two at a time would slow each other."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._links: defaultdict[str, _Link] = defaultdict(_Link)
        """By site, and the hub."""

    async def measure(self, other: str) -> list[Sample]:
        """Return samples of the link to a site or the hub; none when it does not answer in time.

        Bandwidth is among them from time to time, unless the link is too narrow. A large message that is lost
        once may have met a cut, so it is sent again with the next measurement. After two that did not come
        back it waits: a narrow link must not be filled with them.
        """
        link = self._links[other]
        with_bandwidth = monotonic() >= link.due
        samples = await probe(self._bus, other, with_bandwidth=with_bandwidth)
        values = {sample.metric: sample.value for sample in samples}
        if values and with_bandwidth:
            link.see(values["link.round_trip"], values.get("link.bandwidth"))
        elif values:
            link.see_round_trip(values["link.round_trip"])
        return samples


async def probe(bus: Bus, other: str, *, with_bandwidth: bool = True) -> list[Sample]:
    """Return samples of the link to a site or the hub; none when it does not answer in time.

    A link that does not bring a large message back in time has a round trip all the same.
    """

    def sending(within_s: float) -> Send:
        async def send(payload: str) -> EchoAnswer:
            async with asyncio.timeout(within_s):
                # Sent once: a repetition would count as a slow answer.
                return await bus.request(
                    Echo(site=other, payload=payload), deadline_s=within_s, attempt_s=within_s
                )

        return send

    values: dict[str, float] = {}
    try:
        round_trip_s = values["link.round_trip"] = await measured_round_trip(sending(ANSWER_S))
        if with_bandwidth:
            values["link.bandwidth"] = await measured_bandwidth(sending(LARGE_S), round_trip_s)
    except _FAILURES as error:
        measured = ", ".join(values) or "nothing"
        log.debug("of the link to %s %s is measured: %s", other, measured, error)
    return samples_of(f"link:{other}", time(), values)


async def measured_round_trip(send: Send) -> float:
    """Return the seconds that a small message takes there and back. Raises what `send` raises."""
    return median([await _trip_s(send, "") for _ in range(SMALL_PROBES)])


async def measured_bandwidth(send: Send, round_trip_s: float) -> float:
    """Return bytes per second, by one large message beside small ones' `round_trip_s`."""
    # Links between servers compress: random bytes do not become smaller.
    payload = base64.b64encode(secrets.token_bytes(LARGE_BYTES * 3 // 4)).decode()
    return bandwidth(await _trip_s(send, payload), round_trip_s)


async def _trip_s(send: Send, payload: str) -> float:
    begun = monotonic()
    await send(payload)
    return monotonic() - begun


def bandwidth(large_s: float, round_trip_s: float) -> float:
    """Return bytes per second of the large message that went there and back in `large_s`.

    The time of a small message is delay, not bandwidth. At least a tenth is left, where noise is more.
    """
    return 2 * LARGE_BYTES / max(large_s - round_trip_s, large_s / 10)


async def echo(command: Echo) -> EchoAnswer:
    """Answer `Echo`."""
    return EchoAnswer(payload=command.payload)
