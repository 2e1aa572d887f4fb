"""Run a session only for the classes it loads. `class_archive` keeps them."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark import SparkContext

from towpath.contracts.site import EngineSpec
from towpath.engine.session import start_session
from towpath.engine.settings import EngineSettings
from towpath.engine.warm_up import warm_up


def record(directory: Path, java_options: str) -> None:
    """Start a session in `directory`, warm it up, and return when its JVM has ended.

    With `-XX:ArchiveClassesAtExit` among the options, the JVM writes its classes before it ends. Blocks for
    some twenty seconds.
    """
    spec = EngineSpec(java_options=java_options)
    session = start_session(
        EngineSettings("none", spec, nats_url="", user="", password="", directory=directory)
    )
    warm_up(session, read_ahead=False)
    gateway = SparkContext._gateway
    assert gateway is not None, "a session has one"
    java = gateway.proc
    assert java is not None, "the session has started its own JVM"
    session.stop()
    java.communicate()  # Closes its input. Then it ends.


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2])
