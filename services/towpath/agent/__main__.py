"""`python -m towpath.agent --home DIR --site NAME`: run the agent of a site."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from towpath.agent.app import run
from towpath.agent.settings import AgentSettings
from towpath.hooks.extension import watch
from towpath.telemetry.logs import start_logging


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(prog="towpath.agent", description="The agent of one site.")
    parser.add_argument("--home", type=Path, required=True, help="the mesh's directory")
    parser.add_argument("--site", required=True, help="name of the site")
    arguments = parser.parse_args()
    start_logging(arguments.site)
    watch()
    asyncio.run(run(AgentSettings.of(arguments.home, arguments.site)))


if __name__ == "__main__":
    main()
