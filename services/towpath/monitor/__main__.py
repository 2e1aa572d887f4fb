"""The monitor's process: `python -m towpath.monitor --home <directory>`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from towpath.contracts.errors import TowpathError
from towpath.monitor.app import run
from towpath.monitor.settings import Settings


async def _main(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(settings, stop)


def main() -> int:
    """Run until SIGTERM or SIGINT. Exit status 2 when the mesh's settings cannot be read."""
    parser = argparse.ArgumentParser(prog="towpath.monitor", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="directory of the mesh")
    home: Path = parser.parse_args().home
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = Settings.from_home(home)
    except TowpathError as error:
        print(error, file=sys.stderr)
        return 2
    asyncio.run(_main(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
