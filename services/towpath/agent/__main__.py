"""`python -m towpath.agent --home DIR --site NAME`: run the agent of a site."""

from __future__ import annotations

import sys

from towpath.agent.app import run
from towpath.agent.settings import AgentSettings
from towpath.mesh.service_process import run_site_service

if __name__ == "__main__":
    sys.exit(run_site_service("towpath.agent", __doc__, AgentSettings.of, run))
