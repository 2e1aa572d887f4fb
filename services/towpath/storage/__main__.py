"""`python -m towpath.storage --home DIR --site NAME`: run the storage of a site."""

from __future__ import annotations

import sys

from towpath.mesh.service_process import run_site_service
from towpath.storage.app import run
from towpath.storage.settings import StorageSettings

if __name__ == "__main__":
    sys.exit(run_site_service("towpath.storage", __doc__, StorageSettings.of, run))
