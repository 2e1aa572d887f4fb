"""The process of the injector: `python -m towpath.lab.injector --home <directory>`."""

from __future__ import annotations

import sys

from towpath.lab.injector.app import run
from towpath.lab.injector.settings import InjectorSettings
from towpath.mesh.service_process import run_service

if __name__ == "__main__":
    sys.exit(run_service("towpath.lab.injector", __doc__, InjectorSettings.from_home, run))
