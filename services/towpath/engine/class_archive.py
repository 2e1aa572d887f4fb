"""The classes that an engine loads, in an archive that its JVM maps into memory.

Spark loads and verifies some twenty thousand classes before the first micro-batch. With an archive of them
(Java's class data sharing) a session and its warm-up cost the JVM 5.2 instead of 8.2 CPU seconds, and several
engines on one machine share the pages. `python -m towpath.engine.class_archive` makes the archive of this
installation. An engine without one loads all classes at each start.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from towpath.engines.spark.local_files import JAR
from towpath.java import java_program

MAKING_S = 300.0
"""Time for a session, its warm-up and writing the archive, on a slow machine."""

_RECORDING = "towpath.engine.class_recording"
"""The module that runs the session. Only its name, because it imports this one."""


def class_archive() -> Path:
    """Return the path of the archive for this installation's classes and the Java that it would start.

    Another Java, or another PySpark, has another archive, because a JVM takes only its own, of the same
    files.
    """
    java = Path(java_program() or "java")
    built = java.stat().st_mtime_ns if java.exists() else 0
    ours = f"{JAR} {JAR.stat().st_mtime_ns}"
    fits = f"{java.resolve()} {built} {pyspark.__version__} {pyspark.__path__[0]} {ours}"
    digest = hashlib.blake2b(fits.encode(), digest_size=8).hexdigest()
    return Path(sys.prefix, "share", "towpath", f"engine-classes-{digest}.jsa")


def archive_option() -> str:
    """Return the Java option that uses the archive. Empty if there is none."""
    archive = class_archive()
    return f"-XX:SharedArchiveFile={archive}" if archive.exists() else ""


def make_class_archive() -> Path:
    """Run a session with its warm-up, and keep the classes it has loaded. Blocks for some twenty seconds.

    Does nothing if the archive is there, because then it fits. Raises `RuntimeError` when the session fails
    or Java writes no archive, and `subprocess.TimeoutExpired` when that takes longer than `MAKING_S`.
    """
    archive = class_archive()
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="class-archive-", dir=archive.parent) as directory:
        made = Path(directory, "made.jsa")
        option = f"-XX:ArchiveClassesAtExit={made} -Xlog:cds=off -Xlog:cds+dynamic=off"
        command = [sys.executable, "-m", _RECORDING, directory, option]
        run = subprocess.run(command, timeout=MAKING_S, check=False, capture_output=True, text=True)
        if run.returncode != 0 or not made.exists():
            raise RuntimeError(f"no archive of classes was written: {run.stderr.strip()[-2000:]}")
        made.rename(archive)
    return archive


def main() -> None:
    """Make the archive, and print its path."""
    archive = make_class_archive()
    print(f"{archive}: {archive.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
