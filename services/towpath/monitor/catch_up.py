"""Whether the target has caught up, from what both say of their progress. Pure: the caller has the clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

LEAST_LAG_S = 0.3
"""Two reports a fifth of a second apart see the same micro-batch: a shorter lag would ask the target to
be level with the source."""

Serials = Mapping[str, int]
"""Input → newest serial number processed."""


class CatchUp:
    """The target has caught up when it is where the source was one trigger interval ago, in every input.

    Serial numbers are compared input by input and not by a watermark: an idle input stands still for
    both, and holds nobody up.
    """

    def __init__(self, inputs: Iterable[str], trigger_s: float) -> None:
        self._inputs = tuple(inputs)
        self._lag_s = max(trigger_s, LEAST_LAG_S)
        self._earlier: deque[tuple[float, Serials]] = deque()
        """The source's serials with the time of each report. Only the first may be older than the lag."""
        self._target: Serials = {}

    def observe(self, at_s: float, source: Serials, target: Serials) -> bool:
        """Take both's serial numbers at `at_s` (any clock, seconds): whether the target has caught up."""
        self._earlier.append((at_s, dict(source)))
        self._target = dict(target)
        while len(self._earlier) > 1 and self._earlier[1][0] <= at_s - self._lag_s:
            self._earlier.popleft()
        then, wanted = self._earlier[0]
        if then > at_s - self._lag_s:
            return False
        return all(target.get(name, 0) >= wanted.get(name, 0) for name in self._inputs)

    def distances(self) -> dict[str, int]:
        """Input → by how many serial numbers the target is behind the newest of the source."""
        newest = self._earlier[-1][1] if self._earlier else {}
        return {name: newest.get(name, 0) - self._target.get(name, 0) for name in self._inputs}
