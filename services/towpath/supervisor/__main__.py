"""`python -m towpath.supervisor --home H`: run a mesh until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from towpath.contracts.errors import TowpathError
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR
from towpath.processes.claim import ALREADY_CLAIMED, AlreadyClaimedError, claim
from towpath.supervisor.app import run
from towpath.telemetry.logs import start_logging


def main() -> None:
    """Claim the home, so that it has only one supervisor, and run."""
    parser = argparse.ArgumentParser(prog="towpath.supervisor", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="directory of the mesh")
    home = Home(parser.parse_args().home.absolute()).create()
    start_logging()
    try:
        claim(home.run, SUPERVISOR, [sys.executable, *sys.orig_argv[1:]])
    except AlreadyClaimedError:
        logging.warning("another supervisor already runs this mesh")
        sys.exit(ALREADY_CLAIMED)
    try:
        asyncio.run(run(home))
    except TowpathError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
