"""The REST interface's process: `python -m towpath.api --home <directory>`."""

from __future__ import annotations

import sys

from towpath.api.app import run
from towpath.api.settings import ApiSettings
from towpath.mesh.service_process import run_service

if __name__ == "__main__":
    sys.exit(run_service("towpath.api", __doc__, ApiSettings.from_home, run))
