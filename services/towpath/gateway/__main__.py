"""The gateway's process: `python -m towpath.gateway --config FILE`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from towpath.gateway.app import run
from towpath.gateway.settings import GatewaySettings, read_settings
from towpath.gateways.refusal import Refusal


def main(arguments: list[str] | None = None) -> int:
    """Run a gateway until SIGTERM or Ctrl-C. Return the exit code: 2 for wrong settings."""
    parser = argparse.ArgumentParser(prog="python -m towpath.gateway", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="YAML file with the gateway's settings")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(_run(read_settings(options.config)))
    except (Refusal, OSError) as error:
        print(f"towpath gateway: {error}", file=sys.stderr)
        return 2
    return 0


async def _run(settings: GatewaySettings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await run(settings, stop)


if __name__ == "__main__":
    sys.exit(main())
