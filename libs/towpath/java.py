"""Find the Java that programs of this machine would use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

DEADLINE_S = 30.0
"""For Java to print its version. It takes a tenth of a second, and several seconds on a busy machine."""


def java_version() -> int | None:
    """Return the feature release, such as 17, of the Java that Spark would take. None without one. Blocks."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin/java")) if home else shutil.which("java")
    return None if java is None else _version_of(java)


def _version_of(java: str) -> int | None:
    """Return the release of a program; None if it is no Java. Before 9 it was called 1.8."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(found[1]) if found else None
