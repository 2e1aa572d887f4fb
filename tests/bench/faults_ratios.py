"""Compare two settings that were measured by turns: the ratio of their costs, with its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
SEED = 7


@dataclass(frozen=True)
class Ratio:
    """Additional cost of one setting over the other, percent, with a 95 % interval."""

    percent: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.percent:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def dearer(costs: Sequence[float], than: Sequence[float]) -> Ratio:
    """Return the excess of `costs` over `than` in the same rounds: the median of the rounds' ratios.

    It is not the mean, because a single disturbed round would outweigh twenty others. The interval is a
    bootstrap over rounds: a disturbance that lasts longer than a round affects both settings alike.
    """
    ratios = np.asarray(costs, float) / np.asarray(than, float)
    random = np.random.default_rng(SEED)
    picked = random.integers(0, len(ratios), (RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[picked], axis=1), [2.5, 97.5])
    centre, low, high = (100 * (float(each) - 1) for each in (np.median(ratios), low, high))
    return Ratio(centre, low, high, len(ratios))
