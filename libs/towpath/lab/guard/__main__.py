"""The process of a guard: `python -m towpath.lab.guard --home <directory> --scope <site or hub>`."""

from __future__ import annotations

import sys

from towpath.lab.guard.guard import Guard
from towpath.lab.guard.process import guard_name, restart_command, start
from towpath.lab.guard.sentinel import Sentinel


def main() -> None:
    """Run until there is nothing to do, or until SIGTERM or SIGINT. Those who start it claim its name."""
    home, given, stop = start("towpath.lab.guard", __doc__)
    Guard(home, given.scope, Sentinel(restart_command(home, given.scope))).run(stop)
    # In good order: it is not to be listed as one that has died.
    (home.run / f"{guard_name(given.scope)}.json").unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
