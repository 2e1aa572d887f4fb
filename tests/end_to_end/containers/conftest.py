"""Containers for tests; what runs beside them is as in the tests of whole meshes."""

from __future__ import annotations

from running.docker import busybox, docker_daemon

__all__ = ["busybox", "docker_daemon"]
