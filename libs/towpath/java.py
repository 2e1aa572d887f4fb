"""Find the Java that programs of this machine would use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

DEADLINE_S = 30.0
"""For Java to print its version. It takes a tenth of a second, and several seconds on a busy machine."""


def java_program() -> str | None:
    """Return the path of the Java that Spark would take. None without one."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin/java")) if home else shutil.which("java")


def java_version() -> int | None:
    """Return the feature release, such as 17, of the Java that Spark would take. None without one. Blocks."""
    java = java_program()
    return None if java is None else _version_of(java)


def java_files() -> list[Path]:
    """Return the directories that Java reads. Debian keeps its settings apart from its programs."""
    java = java_program()
    homes = [] if java is None else [Path(java).resolve().parents[1]]
    return [*homes, *Path("/etc").glob("java*")]


def _version_of(java: str) -> int | None:
    """Return the release of a program; None if it is no Java. Before 9 it was called 1.8."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(found[1]) if found else None
