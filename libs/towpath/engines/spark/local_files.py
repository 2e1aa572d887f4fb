"""The local file system of Spark's checkpoints: Hadoop's own, without a process for every file.

A micro-batch writes two or three small files. For each, Hadoop starts `chmod` twice, which is a sixth of the
micro-batch's processor time and 30 ms of its duration. It also fails once Java is upgraded under a running
engine, for then the engine can start no process. One class in Java leaves that out. At a power-safe site it
also waits until a file is on the disk, which Hadoop never does. Its source is in the
folder `java`, and the compiled class beside this file: those who run Towpath have a JRE only. `make jar`
compiles it, for which a JDK must be there.
"""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from pathlib import Path

JAR = Path(__file__).with_name("local_files.jar")
_SOURCE = Path(__file__).with_name("java")
_CLASS = "towpath.PlainLocalFileSystem"

_COMPILE_S = 60.0
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of each file in the archive, so that equal classes make equal archives."""


def local_file_settings(*, durable: bool) -> dict[str, str]:
    """Return Spark's settings, for the driver and for executors. `durable` files survive a power cut."""
    return {
        "spark.hadoop.towpath.files.durable": str(durable).lower(),
        "spark.driver.extraClassPath": str(JAR),
        "spark.executor.extraClassPath": str(JAR),
        "spark.hadoop.fs.file.impl": _CLASS,
    }


def compile_jar(jar: Path) -> None:
    """Compile the source into an archive. Raises `OSError` or `CalledProcessError`."""
    import pyspark

    class_path = Path(pyspark.__path__[0], "jars", "*")
    with tempfile.TemporaryDirectory(prefix="local-files-") as directory:
        sources = sorted(map(str, _SOURCE.rglob("*.java")))
        command = ["javac", "--release", "17", "-g:none", "-cp", str(class_path), "-d", directory, *sources]
        subprocess.run(command, check=True, timeout=_COMPILE_S)
        with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
            for compiled in sorted(Path(directory).rglob("*.class")):
                entry = zipfile.ZipInfo(str(compiled.relative_to(directory)), _EPOCH)
                archive.writestr(entry, compiled.read_bytes())


if __name__ == "__main__":
    compile_jar(JAR)
    print(f"{JAR}: {JAR.stat().st_size} bytes")
