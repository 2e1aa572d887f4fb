"""Name the algorithms. All find the same outliers; only PMCOD knows distances to micro-clusters.

In one dimension the sorted window is the better default. `tests/bench/outliers.py` measures a window of
10,000 values with K = 50:

- Each slide costs the sorted window about 1 ms of one core, whatever comes. A value costs PMCOD 5 µs near
  levels, 50 µs where micro-clusters only just form. For slides of 500 values, the sorted window is 2
  to 20 times as fast.
- State that is saved and restored between slides is one array for the sorted window. PMCOD rebuilds its
  micro-clusters, and finds the neighbours of all dispersed values again: 10 to 200 ms.
- PMCOD is up to 5 times as fast for slides of few values, while the detector stays in memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from towpath.outliers.detection import OutlierDetector
from towpath.outliers.pmcod import Pmcod
from towpath.outliers.sorted_window import SortedWindow

ALGORITHMS: Mapping[str, type[OutlierDetector]] = {"pmcod": Pmcod, "sorted_window": SortedWindow}
DEFAULT = "sorted_window"
