"""Choose a sample of events by their serial numbers: the same ones for every reader, after every restart."""

from __future__ import annotations

import struct

import xxhash

STEPS = 1_000_000
"""An event's place among all is a number below this."""

_SEED = 42
"""With it, Spark's `pmod(xxhash64(serial), 1000000)` is the same number."""


def is_sampled(serial: int, share: float) -> bool:
    """Return true if an event belongs to the sample of a share. A sample holds all smaller ones."""
    number = xxhash.xxh64_intdigest(struct.pack("<q", serial), _SEED)
    signed = number - (1 << 64) if number >> 63 else number
    return signed % STEPS < share * STEPS
