"""Picks some of a long row of occurrences by chance: the same ones for the same seed."""

from __future__ import annotations

import numpy as np

_BLOCK = 256
"""Gaps drawn at once: numpy takes little longer for these than for one."""

_LONGEST_GAP = 2**53
"""No process has as many occurrences; a sum of a block of them fits into 64 bits."""


class Chance:
    """Picks each occurrence with probability `p`, by drawing how many to skip until the next pick.

    So what is not picked costs nothing. Occurrences are numbered from 1 and asked for in ascending order.
    """

    def __init__(self, p: float, seed: int) -> None:
        self._p = p
        self._random = np.random.default_rng([seed & (2**64 - 1), 0])
        self._last = 0
        self._picks: list[int] = []
        self._at = 0

    def picks(self, after: int, through: int) -> list[int]:
        """The picked ones of the occurrences `after + 1` to `through`."""
        if self._p <= 0:
            return []
        if self._p >= 1:
            return list(range(after + 1, through + 1))
        found: list[int] = []
        while (pick := self._next(after)) <= through:
            found.append(pick)
            after = pick
        return found

    def _next(self, after: int) -> int:
        """The first pick beyond an occurrence."""
        while True:
            while self._at < len(self._picks):
                if self._picks[self._at] > after:
                    return self._picks[self._at]
                self._at += 1
            self._draw()

    def _draw(self) -> None:
        uniform = 1.0 - self._random.random(_BLOCK)
        with np.errstate(over="ignore"):  # Of a tiny probability; the longest gap is long enough.
            gaps = np.floor(np.log(uniform) / np.log1p(-self._p)) + 1.0
        picks = np.cumsum(np.minimum(gaps, _LONGEST_GAP).astype(np.int64)) + self._last
        self._picks, self._at = picks.tolist(), 0
        self._last = self._picks[-1]
