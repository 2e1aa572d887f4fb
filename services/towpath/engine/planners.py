"""Plan the micro-batches of all queries in threads of the engine, instead of a process for each.

Spark asks a Python data source how far a micro-batch must reach. For that it starts a Python process for
every streaming query, which lives as long as the query. Each costs 70 MB and most of a second of CPU time,
more than everything else of a small job. Spark starts an interpreter, and waits until it connects to a Unix
socket. So the engine gives Spark a small shell script as its interpreter, the launcher. For a planner, the
launcher writes the socket's path into a named pipe and ends. For anything else it becomes the real
interpreter. The engine reads the pipe, connects to the socket, and answers from a thread.

The engine's own process is the right place. Everything is imported there, and all planners share one
connection to the broker. A planner also reads a small micro-batch itself, which spares a Python worker. The
planners end together with the engine's JVM, so that nothing can be left over or missing. Without the pipe, a
launcher starts the real interpreter for a planner as well. The same way the engine stands in for Spark's
daemons that look at sources, see `source_daemons`.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import socket
import sys
import threading
from pathlib import Path
from typing import IO, cast

from pyspark.serializers import CPickleSerializer, SpecialLengths, UTF8Deserializer, write_int
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.sql.types import StructType

from towpath.engine.source_daemons import MODULES, listen, skip_spark_files
from towpath.streams.source import StreamReader

log = logging.getLogger(__name__)

CONNECT_S = 10.0
"""Time for connecting to the JVM, which waits as long."""

END_S = 5.0
"""Time for the listening thread to end when the engine closes."""

BUFFER_BYTES = 8192
"""Buffer of one planner, in each direction. Most answers are offsets and partitions of some hundred bytes."""

_LAUNCHER = """\
#!/bin/sh
# The Python interpreter of the engine's Spark session. It starts no planner of a query, and no daemon that
# looks at sources: the engine does both itself.
if [ -p {pipe} ] && [ "$2" = {module} ] && [ -n "$PYTHON_WORKER_FACTORY_SOCK_PATH" ]; then
    # Spark waits on this socket.
    printf '%s %s\\n' {module} "$PYTHON_WORKER_FACTORY_SOCK_PATH" > {pipe}
    exit
fi
if [ -p {pipe} ] && [ "$2" = pyspark.daemon ] && [ -n "$PYTHON_WORKER_FACTORY_SOCK_DIR" ]; then
    case "$3" in {daemons})
        # Spark connects to the socket that the daemon names, and ends the daemon by closing its input.
        socket="$PYTHON_WORKER_FACTORY_SOCK_DIR/.$$.sock"
        printf '%s %s\\n' "$3" "$socket" > {pipe}
        until [ -S "$socket" ]; do
            [ -p {pipe} ] && kill -0 "$PPID" && sleep 0.01 || exit 1
        done
        printf "\\000\\000\\000\\\\$(printf %03o ${{#socket}})%s" "$socket"
        exec cat > /dev/null
    esac
fi
exec {interpreter} "$@"
"""


class Planners:
    """The engine's planners, one thread for each source of a running query."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pipe = directory / "planners"
        self._descriptor: int | None = None
        self._listener = threading.Thread(target=self._listen, name="planners", daemon=True)

    @property
    def launcher(self) -> Path:
        """Path of the interpreter to give to Spark."""
        return self._directory / "python"

    def start(self) -> None:
        """Write the launcher, and listen to the pipe."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._pipe.unlink(missing_ok=True)  # A killed engine leaves it, and no one would read it.
        os.mkfifo(self._pipe, 0o600)
        # Open for writing as well, so that the pipe does not end whenever a launcher ends.
        self._descriptor = os.open(self._pipe, os.O_RDWR | os.O_CLOEXEC)
        script = _LAUNCHER.format(
            module=runner.__name__,
            daemons="|".join(sorted(MODULES)),
            pipe=shlex.quote(str(self._pipe)),
            interpreter=shlex.quote(sys.executable),
        )
        self.launcher.write_text(script)
        self.launcher.chmod(0o700)
        self._listener.start()

    def close(self) -> None:
        """Stop listening. Planners end when Spark closes their sockets."""
        if self._descriptor is None:
            return
        self._pipe.unlink(missing_ok=True)
        os.write(self._descriptor, b"\n")
        self._listener.join(END_S)
        self._descriptor = None

    def _listen(self) -> None:
        assert self._descriptor is not None
        with os.fdopen(self._descriptor) as pipe:
            # `close` writes an empty line.
            while line := pipe.readline().strip():
                module, _, path = line.partition(" ")
                if module in MODULES:
                    listen(module, Path(path))
                else:
                    threading.Thread(target=_plan, args=(path,), name="planner", daemon=True).start()


def _plan(path: str) -> None:
    """Answer as the planner of the query that listens at `path`, until Spark closes the socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.settimeout(CONNECT_S)
            connection.connect(path)
        except OSError as error:
            log.warning("Spark does not wait for its planner: %s", error)
            return
        connection.settimeout(None)
        _converse(connection)


def _converse(connection: socket.socket) -> None:
    try:
        with connection.makefile("rwb", BUFFER_BYTES) as file:
            stream = cast("IO[bytes]", file)
            write_int(os.getpid(), stream)
            stream.flush()
            runner.main(stream, stream)
    except (OSError, SystemExit):
        return  # Spark closed the socket, as it does when a query ends, or has got the error.


def _plan_and_read(
    reader: DataSourceStreamReader,
    data_source: DataSource,
    schema: StructType,
    max_arrow_batch_size: int,
    infile: IO,
    outfile: IO,
) -> None:
    """Answer with the partitions of a micro-batch, and with its events if the reader reads ahead."""
    text = UTF8Deserializer()
    start, end = (json.loads(text.loads(infile) or "{}") for _ in range(2))
    partitions = reader.partitions(start, end)
    batches = reader.ahead(partitions) if isinstance(reader, StreamReader) else None
    write_int(len(partitions), outfile)
    for partition in partitions:
        CPickleSerializer()._write_with_length(partition, outfile)
    if batches is None:
        write_int(runner.PREFETCHED_RECORDS_NOT_FOUND, outfile)
    elif not batches:
        write_int(runner.EMPTY_PYARROW_RECORD_BATCHES, outfile)
    else:
        write_int(runner.NON_EMPTY_PYARROW_RECORD_BATCHES, outfile)
        write_int(SpecialLengths.START_ARROW_STREAM, outfile)
        ArrowStreamSerializer().dump_stream(batches, outfile)


# PySpark's runner reads ahead only for a simple reader, which plans every micro-batch by reading it. It also
# expects a process of its own, and begins by setting that up. It makes the process a worker, and it forgets
# all accumulators of the driver. Neither must happen to the engine.
runner.partitions_func = _plan_and_read
runner.setup_spark_files = skip_spark_files  # type: ignore[assignment]
runner._accumulatorRegistry = {}  # type: ignore[attr-defined]
