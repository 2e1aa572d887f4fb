"""`make bench-compositions`: the cost of pipelines of many jobs that are deployed, modified and deleted.

Exit code 1 if a part could not finish, or an event was lost or repeated; a target that is not met does not
change it. `tests/bench/README.md` says what each figure means.
"""

from __future__ import annotations

import sys

import compositions_chains
import compositions_registry
import run

PARTS = {module.BENCHMARK.name: module.BENCHMARK for module in (compositions_registry, compositions_chains)}

if __name__ == "__main__":
    sys.exit(run.main(every=PARTS, program="compositions.py", prefix="compositions-"))
