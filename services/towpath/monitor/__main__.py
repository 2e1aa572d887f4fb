"""The monitor's process: `python -m towpath.monitor --home <directory>`."""

from __future__ import annotations

import sys

from towpath.mesh.service_process import run_service
from towpath.monitor.app import run
from towpath.monitor.settings import MonitorSettings

if __name__ == "__main__":
    sys.exit(run_service("towpath.monitor", __doc__, MonitorSettings.from_home, run))
