"""Choose a sample of events by their serial numbers: the same ones for every reader, after every restart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

STEPS = 1_000_000
"""An event's place among all is a number below this."""

Words: TypeAlias = npt.NDArray[np.uint64]

_SEED = 42
"""With it, Spark's `pmod(xxhash64(serial), 1000000)` is the same number."""

_PRIMES = [
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
]


def sampled(serials: Iterable[int], shares: float | Sequence[float]) -> npt.NDArray[np.bool_]:
    """Tell of each event if it belongs to the sample of a share: of one for all, or of its own.

    A sample holds all smaller ones.
    """
    return places(serials) < np.asarray(shares) * STEPS


def places(serials: Iterable[int]) -> npt.NDArray[np.int64]:
    """Return the place of each event among all. A sample of a share has the first ones."""
    return _xxh64(np.fromiter(serials, np.int64).view(np.uint64)).view(np.int64) % STEPS


def _xxh64(words: Words) -> Words:
    """Return the hash of each word of 8 bytes (Collet, "XXH64 algorithm description", 0.2.0).

    The package of that name takes one word a call, and 0.4 µs for it. This takes 0.03 µs in thousands.
    """
    first, second, third, fourth, fifth = _PRIMES
    start = np.uint64((_SEED + int(fifth) + 8) % 2**64)
    hashed = _rotated(start ^ (_rotated(words * second, 31) * first), 27) * first + fourth
    for shift, prime in ((33, second), (29, third)):
        hashed = (hashed ^ (hashed >> np.uint64(shift))) * prime
    return hashed ^ (hashed >> np.uint64(32))


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
