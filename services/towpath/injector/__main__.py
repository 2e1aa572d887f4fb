"""The process of the injector: `python -m towpath.injector --home <directory>`."""

from __future__ import annotations

import sys

from towpath.injector.app import run
from towpath.injector.settings import Settings
from towpath.mesh.service import run_service

if __name__ == "__main__":
    sys.exit(run_service("towpath.injector", __doc__, Settings.from_home, run))
