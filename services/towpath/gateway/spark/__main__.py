"""The process of an application that is a Spark cluster: `python -m towpath.gateway.spark`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from towpath.gateway.parent_death import end_with_parent
from towpath.gateway.spark.app import run
from towpath.gateway.spark.processes import adopt_orphans


def main() -> int:
    """Run until standard input ends. Return the exit code."""
    end_with_parent()
    adopt_orphans()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    output = os.dup(1)
    os.dup2(2, 1)  # What others print goes to the log, not between the lines.
    return asyncio.run(run(output))


if __name__ == "__main__":
    sys.exit(main())
