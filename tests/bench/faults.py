"""`make bench-faults`: the cost of fault rules, loaded and not loaded, and the delay of their effect.

Exit code 1 if a part could not finish; a target that is not met does not change it. `tests/bench/README.md`
says what each figure means.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import faults_overhead
import faults_points
import faults_reach
import run

PARTS = {module.BENCHMARK.name: module.BENCHMARK for module in (faults_points, faults_reach, faults_overhead)}

WITHOUT_FAULTS = Path(__file__).with_name("without_faults")


def without_faults_at(site: str) -> None:
    """Keep rules from all processes of a site that this process starts from now on."""
    paths = [str(WITHOUT_FAULTS), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    os.environ["TOWPATH_BENCH_WITHOUT_FAULTS"] = site


if __name__ == "__main__":
    without_faults_at(faults_overhead.BARE.name)
    sys.exit(run.main(every=PARTS, program="faults.py", prefix="faults-"))
