"""The Java that Spark needs on a machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError

OLDEST_JAVA = 17
"""Spark 4 does not run on an older one."""

JAVA_DEADLINE_S = 30.0
"""For Java to print its version. It takes a tenth of a second, and several seconds on a busy machine."""


def check_java() -> None:
    """Look for Java as Spark does. Blocks. Raises `TowpathError` if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin/java")) if home else shutil.which("java")
    version = _java_version(java) if java and Path(java).exists() else None
    if version is None or version < OLDEST_JAVA:
        raise TowpathError(
            ErrorCode.FAILED,
            "Java is missing" if version is None else f"Java is too old: version {version}",
            field="JAVA_HOME",
            value=home,
            allowed=f"Java {OLDEST_JAVA} or later: run `make setup`, or install openjdk-17-jre-headless",
        )


def _java_version(java: str) -> int | None:
    """Return the feature release, such as 17. None if that is no Java. Before 9 it was called 1.8."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(found[1]) if found else None
