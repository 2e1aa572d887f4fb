"""The process of the collector: `python -m towpath.collector --home <directory>`."""

from __future__ import annotations

import sys

from towpath.collector.app import run
from towpath.collector.settings import CollectorSettings
from towpath.mesh.service_process import run_service

if __name__ == "__main__":
    sys.exit(run_service("towpath.collector", __doc__, CollectorSettings.from_home, run))
