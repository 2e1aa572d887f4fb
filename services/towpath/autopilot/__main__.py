"""The autopilot's process: `python -m towpath.autopilot --home <directory>`."""

from __future__ import annotations

import sys

from towpath.autopilot.app import run
from towpath.autopilot.settings import AutopilotSettings
from towpath.mesh.service_process import run_service

if __name__ == "__main__":
    sys.exit(run_service("towpath.autopilot", __doc__, AutopilotSettings.from_home, run))
