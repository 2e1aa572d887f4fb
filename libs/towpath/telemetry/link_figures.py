"""How good a way to somebody is, measured with what comes back over it."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Awaitable, Callable
from statistics import median
from time import monotonic

SMALL_PROBES = 5
"""Their median: one that waits behind a checkpoint says nothing of the link."""

LARGE_BYTES = 64 * 1024

Send = Callable[[str], Awaitable[object]]
"""Sends a text and returns when it has come back; raises when it does not."""


async def measured_round_trip(send: Send) -> float:
    """Seconds that a small message takes there and back. Raises what `send` raises."""
    return median([await _trip_s(send, "") for _ in range(SMALL_PROBES)])


async def measured_bandwidth(send: Send, round_trip_s: float) -> float:
    """Bytes a second, by one large message beside small ones' `round_trip_s`. Raises what `send` raises."""
    # Links between servers compress: what is sent must not become smaller by that.
    payload = base64.b64encode(secrets.token_bytes(LARGE_BYTES * 3 // 4)).decode()
    return bandwidth(await _trip_s(send, payload), round_trip_s)


async def _trip_s(send: Send, payload: str) -> float:
    begun = monotonic()
    await send(payload)
    return monotonic() - begun


def bandwidth(large_s: float, round_trip_s: float) -> float:
    """Bytes a second of the large message that went there and back in `large_s`, beside a small one's trip.

    What the small one takes as well is delay, not bandwidth; at least a tenth is left, where noise is more.
    """
    return 2 * LARGE_BYTES / max(large_s - round_trip_s, large_s / 10)
