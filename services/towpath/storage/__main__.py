"""`python -m towpath.storage --home DIR --site NAME`: run the storage of a site."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from towpath.contracts.errors import TowpathError
from towpath.hooks.extension import watch
from towpath.storage.app import run
from towpath.storage.settings import StorageSettings
from towpath.telemetry.logs import start_logging


def main() -> int:
    """Parse arguments and run. Return 2 when the settings cannot be read, or do not ask for it."""
    parser = argparse.ArgumentParser(prog="towpath.storage", description="The storage of one site.")
    parser.add_argument("--home", type=Path, required=True, help="the mesh's directory")
    parser.add_argument("--site", required=True, help="name of the site")
    arguments = parser.parse_args()
    start_logging(arguments.site)
    try:
        settings = StorageSettings.of(arguments.home, arguments.site)
    except TowpathError as error:
        print(error, file=sys.stderr)
        return 2
    watch()
    asyncio.run(run(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
