"""Check that this machine has what sites need beside a bare installation: packages of an extra, and Java."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import MeshSpec

OLDEST_JAVA = 17
"""Spark 4 needs this release or a later one."""

AGENT_NEEDS = ("pyarrow", "xxhash")
"""Packages that read checkpoints. An agent is a process of this machine wherever its engine runs."""

ENGINE_NEEDS = ("pandas", "pyspark")

JAVA_DEADLINE_S = 30.0
"""Time for Java to say its version. It takes a tenth of a second, on a busy machine several seconds."""


def check_requirements(spec: MeshSpec) -> None:
    """Raise `TowpathError` when the sites of `spec` miss something: it says how to install it. Blocks."""
    engines = any(not site.container.is_docker for site in spec.sites)
    needed = [*AGENT_NEEDS, *ENGINE_NEEDS] if engines else [*AGENT_NEEDS]
    missing = [package for package in needed if importlib.util.find_spec(package) is None]
    if missing:
        raise TowpathError(
            ErrorCode.FAILED,
            f"sites need what is not installed ({', '.join(missing)}): pip install 'towpath[engine]'",
        )
    if engines:
        _check_java()


def _check_java() -> None:
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
    """Return the feature release, such as 17; None if that is no Java. Before 9 it was called 1.8."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(found[1]) if found else None
