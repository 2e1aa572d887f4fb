"""Containers for tests. All other fixtures are those of the tests of whole meshes."""

from __future__ import annotations

from running.docker import busybox, docker_daemon

__all__ = ["busybox", "docker_daemon"]
