"""The process of the emulated links: `python -m towpath.lab.links --home <directory>`."""

from __future__ import annotations

import sys

from towpath.lab.links.app import run
from towpath.lab.links.settings import LinkSettings
from towpath.mesh.service_process import run_service

if __name__ == "__main__":
    sys.exit(run_service("towpath.lab.links", __doc__, LinkSettings.from_home, run))
