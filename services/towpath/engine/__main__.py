"""`python -m towpath.engine --home DIR --site NAME`: run the engine of a site."""

from __future__ import annotations

import argparse
import asyncio
import logging
from pathlib import Path

from towpath.engine.app import run
from towpath.engine.settings import EngineSettings
from towpath.hooks.extension import watch
from towpath.telemetry.logs import start_logging


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(prog="towpath.engine", description="The Spark engine of one site.")
    parser.add_argument("--home", type=Path, required=True, help="the mesh's directory")
    parser.add_argument("--site", required=True, help="name of the site")
    parser.add_argument(
        "--job", help="the one job of this engine; by default all jobs without an engine of their own"
    )
    parser.add_argument("--memory", help="heap of its JVM, instead of the site's setting")
    arguments = parser.parse_args()
    start_logging(arguments.site)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    watch()
    asyncio.run(run(EngineSettings.of(arguments.home, arguments.site, arguments.job, arguments.memory)))


if __name__ == "__main__":
    main()
