"""The Java that Spark needs on a machine."""

from __future__ import annotations

import os

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.java import java_version

OLDEST_JAVA = 17
"""Spark 4 does not run on an older one."""


def check_java() -> None:
    """Look for Java as Spark does. Blocks. Raises `TowpathError` if it is missing or too old."""
    version = java_version()
    if version is None or version < OLDEST_JAVA:
        raise TowpathError(
            ErrorCode.FAILED,
            "Java is missing" if version is None else f"Java is too old: version {version}",
            field="JAVA_HOME",
            value=os.environ.get("JAVA_HOME"),
            allowed=f"Java {OLDEST_JAVA} or later: run `make setup`, or install openjdk-17-jre-headless",
        )
