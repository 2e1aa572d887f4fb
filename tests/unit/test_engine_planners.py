"""Planners in threads of the engine, asked as Spark asks them: through the launcher and a Unix socket."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import pytest
from pyspark.accumulators import Accumulator, AccumulatorParam, _accumulatorRegistry
from pyspark.core.files import SparkFiles
from pyspark.serializers import (
    CPickleSerializer,
    SpecialLengths,
    UTF8Deserializer,
    read_int,
    write_int,
    write_with_length,
)
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import IntegerType, StructType

from running.waiting import WITHIN_S
from towpath.engine.planners import Planners

gate = threading.Event()
"""Gate at which a slow source waits."""


class Counting(DataSource):
    """A source whose end is ten beyond any start; `slow` waits for the gate, `broken` fails."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "n INT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return CountingReader(self.options.get("kind"))


class CountingReader(DataSourceStreamReader):
    def __init__(self, kind: str | None) -> None:
        self.kind = kind

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        if self.kind == "broken":
            raise RuntimeError("EventsLost: serials 1..2 of IN are no longer kept")
        if self.kind == "slow":
            gate.wait(WITHIN_S)
        return {"serial": start["serial"] + 10}

    def read(self, partition: InputPartition) -> Iterator[tuple]:
        raise AssertionError("planners do not read")


@dataclass
class Conversation:
    """Spark's end of a socket with a planner."""

    stream: IO[bytes]
    pid: int

    def introduce(self, source: DataSource) -> int:
        """Send the source to plan. The planner's answer is 0."""
        write_with_length(b"%d.%d" % sys.version_info[:2], self.stream)
        write_with_length(b"/nowhere/files", self.stream)
        write_int(0, self.stream)
        CPickleSerializer()._write_with_length(source, self.stream)
        write_with_length(StructType().add("n", IntegerType()).json().encode(), self.stream)
        write_int(1000, self.stream)
        self.stream.flush()
        return read_int(self.stream)

    def latest_offset(self, start: int) -> dict | str:
        """The planned offset, or the text of an error."""
        write_int(runner.LATEST_OFFSET_ADMISSION_CONTROL_FUNC_ID, self.stream)
        write_with_length(json.dumps({"serial": start}).encode(), self.stream)
        write_with_length(json.dumps({"_type": ReadAllAvailable.__name__}).encode(), self.stream)
        self.stream.flush()
        length = read_int(self.stream)
        if length == SpecialLengths.PYTHON_EXCEPTION_THROWN:
            return cast(str, UTF8Deserializer().loads(self.stream))
        return json.loads(self.stream.read(length))


@contextmanager
def planned(planners: Planners) -> Iterator[Conversation]:
    """Start a planner as Spark does, and wait until it connects."""
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as server:
        path = str(Path(directory) / "worker.sock")
        server.bind(path)
        server.listen()
        server.settimeout(WITHIN_S)
        command = [str(planners.launcher), "-m", "pyspark.sql.streaming.python_streaming_source_runner"]
        environment = {**os.environ, "PYTHON_WORKER_FACTORY_SOCK_PATH": path}
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        connection, _ = server.accept()
        connection.settimeout(WITHIN_S)
        with connection, connection.makefile("rwb") as file:
            stream = cast("IO[bytes]", file)
            yield Conversation(stream, read_int(stream))
            connection.shutdown(socket.SHUT_RDWR)
        process.wait(WITHIN_S)


@pytest.fixture
def planners(tmp_path: Path) -> Iterator[Planners]:
    running = Planners(tmp_path / "engine")
    running.start()
    yield running
    running.close()


def source(kind: str = "ready") -> Counting:
    return Counting({"kind": kind})


def test_planner_when_spark_starts_one_then_the_engine_itself_answers(planners: Planners) -> None:
    with planned(planners) as conversation:
        assert conversation.pid == os.getpid()
        assert conversation.introduce(source()) == 0
        assert conversation.latest_offset(5) == {"serial": 15}
        assert conversation.latest_offset(15) == {"serial": 25}


def test_planner_when_another_one_is_slow_then_answers_meanwhile(planners: Planners) -> None:
    gate.clear()
    answers: list[dict | str] = []
    with planned(planners) as slow, planned(planners) as quick:
        assert slow.introduce(source("slow")) == quick.introduce(source()) == 0
        waiting = threading.Thread(target=lambda: answers.append(slow.latest_offset(0)))
        waiting.start()
        assert quick.latest_offset(1) == {"serial": 11}
        assert answers == []
        gate.set()
        waiting.join(WITHIN_S)
        assert answers == [{"serial": 10}]


def test_planner_when_its_source_fails_then_spark_is_told_and_others_go_on(planners: Planners) -> None:
    with planned(planners) as broken, planned(planners) as sound:
        assert broken.introduce(source("broken")) == sound.introduce(source()) == 0
        assert "EventsLost: serials 1..2 of IN" in str(broken.latest_offset(0))
        assert sound.latest_offset(0) == {"serial": 10}


def test_planner_when_spark_closes_its_socket_then_its_thread_ends(planners: Planners) -> None:
    with planned(planners) as conversation:
        conversation.introduce(source())
        running = [thread for thread in threading.enumerate() if thread.name == "planner"]
        assert running
    for thread in running:
        thread.join(WITHIN_S)
        assert not thread.is_alive()


def test_planner_when_it_runs_then_the_driver_stays_a_driver(planners: Planners) -> None:
    class Sum(AccumulatorParam[int]):
        def zero(self, value: int) -> int:
            return 0

        def addInPlace(self, value1: int, value2: int) -> int:
            return value1 + value2

    kept = Accumulator(4711, 0, Sum())
    with planned(planners) as conversation:
        conversation.introduce(source())
        assert _accumulatorRegistry[4711] is kept
        assert not SparkFiles._is_running_on_worker
        assert "/nowhere/files" not in sys.path
    del _accumulatorRegistry[4711]


@contextmanager
def daemon(planners: Planners, module: str, directory: str) -> Iterator[IO[bytes]]:
    """Start a daemon of workers as Spark does, and connect to the socket that it names."""
    command = [str(planners.launcher), "-m", "pyspark.daemon", f"pyspark.sql.worker.{module}"]
    environment = {**os.environ, "PYTHON_WORKER_FACTORY_SOCK_DIR": directory}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as process:  # type: ignore[call-overload]
        path = UTF8Deserializer().loads(process.stdout)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(WITHIN_S)
            connection.connect(path)
            with connection.makefile("rwb") as stream:
                yield cast("IO[bytes]", stream)
        process.stdin.close()
        process.wait(WITHIN_S)


def test_daemon_when_spark_looks_up_sources_then_the_engine_itself_answers_again_and_again(
    planners: Planners,
) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        daemon(planners, "lookup_data_sources", directory) as stream,
    ):
        assert read_int(stream) == os.getpid()
        for _ in range(2):
            write_with_length(b"%d.%d" % sys.version_info[:2], stream)
            write_with_length(b"/nowhere/files", stream)
            write_int(0, stream)
            stream.write(b"\0")  # Broadcasts are not encrypted.
            write_int(0, stream)
            write_int(0, stream)
            write_int(SpecialLengths.END_OF_STREAM, stream)
            stream.flush()
            sources, updates, end = (read_int(stream) for _ in range(3))
            assert (sources, updates, end) == (0, 0, SpecialLengths.END_OF_STREAM)
        assert "/nowhere/files" not in sys.path
        assert not SparkFiles._is_running_on_worker


def test_launcher_when_spark_starts_anything_else_then_is_the_real_interpreter(planners: Planners) -> None:
    code = "import sys; print(sys.executable, *sys.argv[1:])"
    ended = subprocess.run(
        [str(planners.launcher), "-c", code, "a b"], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert ended.stdout == f"{sys.executable} a b\n"


def test_launcher_when_no_one_listens_then_a_process_plans(planners: Planners) -> None:
    planners.close()
    with planned(planners) as conversation:
        assert conversation.pid != os.getpid()


def test_planners_when_an_engine_was_killed_then_the_next_one_answers(tmp_path: Path) -> None:
    killed = Planners(tmp_path / "engine")
    killed.start()
    following = Planners(tmp_path / "engine")
    following.start()
    with planned(following) as conversation:
        assert conversation.introduce(source()) == 0
    following.close()
    killed.close()
