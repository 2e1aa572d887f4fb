"""The process of a guard: `python -m towpath.lab.guard --home <directory> --scope <site or hub>`."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path
from threading import Event

from towpath.lab.guard.guard import Guard
from towpath.lab.guard.process import guard_name, restart_command
from towpath.lab.guard.sentinel import Sentinel
from towpath.mesh.home import Home


def main() -> None:
    """Run until there is nothing to do, or until SIGTERM or SIGINT. Those who start it claim its name."""
    options = argparse.ArgumentParser("towpath.lab.guard", description=__doc__)
    options.add_argument("--home", required=True, type=Path)
    options.add_argument("--scope", required=True)
    given = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    home = Home(given.home)
    Guard(home, given.scope, Sentinel(restart_command(home, given.scope))).run(stop)
    # In good order: it is not to be listed as one that has died.
    (home.run / f"{guard_name(given.scope)}.json").unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
