"""Serve in threads of the engine what Spark keeps Python daemons for: looking at sources of data.

Before a plan with a Python source is made, Spark looks up sources, creates one and plans its reading. For
each of the three it starts a daemon, and each daemon forks workers: together 250 MB and three seconds of CPU
time, idle from then on. Their code runs as well in the engine, which has imported all of it. The launcher
stands in for the daemon, see `planners`.

A daemon listens on a Unix socket. A client that connects gets the number of a process, and then says what to
do, again and again.
"""

from __future__ import annotations

import importlib
import os
import socket
import threading
from pathlib import Path
from typing import IO, Any, cast

from pyspark.serializers import UTF8Deserializer, read_int, write_int
from pyspark.sql.worker import utils

MODULES = frozenset(
    f"pyspark.sql.worker.{name}"
    for name in ("lookup_data_sources", "create_data_source", "plan_data_source_read")
)
"""The modules of Spark's workers that the engine runs itself. None of them runs code of users."""

BUFFER_BYTES = 64 * 1024
"""Buffer of one worker, in each direction, as Spark's own workers have it."""


def listen(module: str, path: Path) -> None:
    """Serve as the daemon of a module's workers, until the engine ends. Returns once Spark can connect."""
    server = socket.socket(socket.AF_UNIX)
    unready = path.with_suffix(".unready")
    server.bind(str(unready))
    unready.chmod(0o600)
    server.listen()
    unready.rename(path)  # The launcher names the socket to Spark as soon as it sees it.
    threading.Thread(target=_accept, args=(module, server), name=f"daemon of {module}", daemon=True).start()


def _accept(module: str, server: socket.socket) -> None:
    main = importlib.import_module(module).main
    with server:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_work, args=(main, connection), name="source worker", daemon=True).start()


def _work(main: Any, connection: socket.socket) -> None:
    """Do what Spark asks for on one connection, until it closes that."""
    try:
        with connection, connection.makefile("rwb", BUFFER_BYTES) as file:
            stream = cast("IO[bytes]", file)
            write_int(os.getpid(), stream)
            stream.flush()
            while True:
                main(stream, stream)
                stream.flush()
    except (OSError, EOFError, SystemExit):
        return  # Spark closed the connection, or has got the error.


def skip_spark_files(stream: IO) -> None:
    """Read past the files that Spark added for Python workers, because this process has its own path."""
    text = UTF8Deserializer()
    text.loads(stream)
    for _ in range(read_int(stream)):
        text.loads(stream)


# Workers expect a process of their own: they would make it a worker, and replace its accumulators. The driver
# must keep its own, and these workers have no updates of accumulators to send.
for _name, _ours in {
    "setup_spark_files": skip_spark_files,
    "_accumulatorRegistry": {},
    "_deserialize_accumulator": lambda *_: None,
    "send_accumulator_updates": lambda stream: write_int(0, stream),
}.items():
    assert hasattr(utils, _name)
    setattr(utils, _name, _ours)
