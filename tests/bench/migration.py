"""`make bench-migration`: all strategies of migration, on the same jobs and loads, in one run.

Exit code 1 if a part could not finish, or anything was lost, repeated, wrong or out of order; a target that
is not met does not change it. `tests/bench/README.md` says what each figure means.
"""

from __future__ import annotations

import sys

import migration_grid
import migration_marathon
import migration_state
import migration_strategies
import run

PARTS = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (migration_strategies, migration_grid, migration_state, migration_marathon)
}

if __name__ == "__main__":
    sys.exit(run.main(every=PARTS, program="migration.py", prefix="migration-"))
