"""Compares two settings that were measured by turns: the ratio of their costs, and how sure it is."""

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
    """By how much `costs` exceed `than`, of the same rounds: the median of the rounds' ratios.

    Not their mean: a single round in which the machine did something else would say more than twenty others.
    The interval is a bootstrap over rounds: what lasts longer than a round meets both settings alike.
    """
    ratios = np.asarray(costs, float) / np.asarray(than, float)
    random = np.random.default_rng(SEED)
    picked = random.integers(0, len(ratios), (RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[picked], axis=1), [2.5, 97.5])
    centre, low, high = (100 * (float(each) - 1) for each in (np.median(ratios), low, high))
    return Ratio(centre, low, high, len(ratios))
