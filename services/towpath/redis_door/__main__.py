"""The door's process: `python -m towpath.redis_door --home <directory>`."""

from __future__ import annotations

import sys

from towpath.mesh.service_process import run_service
from towpath.redis_door.app import run
from towpath.redis_door.settings import DoorSettings

if __name__ == "__main__":
    sys.exit(run_service("towpath.redis_door", __doc__, DoorSettings.from_home, run))
