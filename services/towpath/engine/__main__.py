"""`python -m towpath.engine FILE`: run an engine with the settings in a file of `towpath.engines.setup`."""

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
    parser.add_argument("setup", type=Path, help="file with its settings")
    settings = EngineSettings.of(parser.parse_args().setup)
    start_logging(settings.site)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    watch()
    asyncio.run(run(settings))


if __name__ == "__main__":
    main()
