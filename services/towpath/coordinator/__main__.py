"""The coordinator's process: `python -m towpath.coordinator --home <directory>`."""

from __future__ import annotations

import sys

from towpath.coordinator.app import run
from towpath.coordinator.settings import CoordinatorSettings
from towpath.mesh.service_process import run_service

if __name__ == "__main__":
    sys.exit(run_service("towpath.coordinator", __doc__, CoordinatorSettings.from_home, run))
