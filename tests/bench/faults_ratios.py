"""Compares two settings that were measured by turns: the ratio of their means, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
SEED = 7


@dataclass(frozen=True)
class Ratio:
    """How much more one setting costs than the other, percent, with a 95 % interval."""

    percent: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.percent:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def dearer(costs: Sequence[float], than: Sequence[float]) -> Ratio:
    """By how much `costs` exceed `than`, of the same rounds: the geometric mean of the rounds' ratios.

    The interval is a bootstrap over rounds: what lasts longer than a round meets both settings alike.
    """
    logarithms = np.log(np.asarray(costs, float)) - np.log(np.asarray(than, float))
    random = np.random.default_rng(SEED)
    picked = random.integers(0, len(logarithms), (RESAMPLES, len(logarithms)))
    means = logarithms[picked].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    centre, low, high = (100 * (float(np.exp(each)) - 1) for each in (logarithms.mean(), low, high))
    return Ratio(centre, low, high, len(logarithms))
