"""Containers for tests; what runs beside them is as in the tests of whole meshes."""

from __future__ import annotations

import sys
from pathlib import Path

# Tests of whole meshes know how to start one.
sys.path.append(str(Path(__file__).parents[1] / "end_to_end"))

from running_docker import busybox, docker_daemon

__all__ = ["busybox", "docker_daemon"]
