"""An agent turns its observations of streams, jobs, processes and its engine into samples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from towpath.agent import stream_figures
from towpath.agent.engine_measures import EngineMeasures
from towpath.agent.job_figures import size_of, unprocessed
from towpath.agent.metering import SITES_IN_A_ROUND, Metering, in_turn
from towpath.agent.stream_figures import StreamFigures, streams_at
from towpath.contracts.engine import Measures, ReadMeasures
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.metrics import Echo, EchoAnswer, ReadMetrics, Sample
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.mesh.link_probe import LARGE_BYTES, bandwidth, probe
from towpath.streams.stream_view import StreamView
from towpath.telemetry.metric_store import MetricStore
from towpath.telemetry.process_figures import ProcessFigures

T0 = 1_800_000_000.0
NOBODY = TowpathError(ErrorCode.UNREACHABLE, "no one answers this command")


def sample(at: float, value: float = 1.0) -> Sample:
    return Sample(entity="job:a", metric="job.events", at=T0 + at, value=value)


class Engine:
    """Answers like an engine that has taken some samples, one per second."""

    def __init__(self, incarnation: str, count: int) -> None:
        self.incarnation, self.count = incarnation, count
        self.is_there = True

    async def request(self, command: ReadMeasures, *, deadline_s: float) -> Measures:
        if not self.is_there:
            raise NOBODY
        new = [sample(n, n) for n in range(command.after + 1, self.count + 1)]
        return Measures(incarnation=self.incarnation, samples=new, last=self.count)


async def test_measures_when_the_engine_is_asked_again_then_each_sample_comes_once() -> None:
    engine = Engine("one", 3)
    measures = EngineMeasures(cast("Any", engine), "jfk")
    assert [s.value for s in await measures.new()] == [1, 2, 3]
    engine.count = 5
    assert [s.value for s in await measures.new()] == [4, 5]


async def test_measures_when_another_engine_has_started_then_its_first_samples_are_not_missed() -> None:
    engine = Engine("one", 3)
    measures = EngineMeasures(cast("Any", engine), "jfk")
    await measures.new()
    engine.is_there = False
    assert await measures.new() == []
    engine.is_there, engine.incarnation, engine.count = True, "two", 5
    assert [s.value for s in await measures.new()] == [1, 2, 3, 4, 5]


def view(last: int, size: int) -> StreamView:
    return StreamView("", created="", subjects=(), first=1, last=last, size=size)


def test_streams_when_looked_at_twice_then_have_a_rate_and_only_those_the_site_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments = iter([10.0, 12.0, 14.0])
    monkeypatch.setattr(stream_figures, "monotonic", lambda: next(moments))
    figures = StreamFigures()
    first = figures.values({n: view(100, 5) for n in ("IN", "OUT_a", "MIRROR_cloud_IN", "SPANS")})
    assert first == {n: {"stream.events": 100.0, "stream.size": 5.0} for n in ("IN", "OUT_a")}
    assert figures.values({"IN": view(150, 5)})["IN"]["stream.event_rate"] == 25.0
    assert figures.values({"IN": view(8, 5)})["IN"]["stream.event_rate"] == 4.0


class Server:
    """Answers two streams of a list at a time."""

    options = {"user": "jfk.agent"}

    def __init__(self, count: int) -> None:
        self.names = [f"OUT_{n}" for n in range(count)]

    async def request(self, subject: str, body: bytes, *, timeout: float) -> Any:
        offset = json.loads(body)["offset"]
        page = [
            {"config": {"name": name}, "state": {"last_seq": 7, "bytes": 70}, "mirror": {"lag": 3}}
            for name in self.names[offset : offset + 2]
        ]
        data = json.dumps({"total": len(self.names), "streams": page})
        return type("Answer", (), {"data": data.encode()})


async def test_streams_when_they_are_more_than_one_answer_holds_then_all_are_seen() -> None:
    states = await streams_at(cast("Any", Server(5)), "jfk")
    seen = {name: (state.newest, state.size) for name, state in states.items()}
    assert seen == {f"OUT_{n}": (10, 70) for n in range(5)}


async def test_backlog_when_an_input_is_mirrored_then_counts_what_the_origin_has() -> None:
    example = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
    own = example.inputs[0].model_copy(update={"name": "own", "site": "jfk", "stream": "IN"})
    far = own.model_copy(update={"name": "far", "site": "cloud", "stream": "OUT_a", "after_serial": 40})
    job = example.model_copy(update={"inputs": [own, far]})
    streams = {"IN": view(120, 0), "MIRROR_cloud_OUT_a": view(45, 0)}
    assert unprocessed("jfk", job, {"own": 100}, streams) == 20 + 5
    assert unprocessed("jfk", job, {"own": 130, "far": 45}, streams) == 0
    assert unprocessed("jfk", job, {"own": 100}, {"IN": streams["IN"]}) is None


def test_size_when_files_lie_deep_then_counts_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "state" / "0").mkdir(parents=True)
    (tmp_path / "state" / "0" / "1.delta").write_bytes(b"x" * 1000)
    (tmp_path / "metadata").write_bytes(b"x" * 10)
    assert size_of(tmp_path) == 1010
    assert size_of(tmp_path / "missing") == 0


def test_processes_when_one_has_started_another_then_each_counts_what_is_its_own() -> None:
    code = "print('up', flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()  # Until it is up, its memory grows between the two looks.
        figures = ProcessFigures()
        alone = figures.look({"ours": os.getpid()})["ours"]
        apart = figures.look({"ours": os.getpid(), "child": child.pid})
    finally:
        child.communicate(b"\n")
    assert alone["process.memory.usage"] > apart["ours"]["process.memory.usage"] > 0
    assert apart["child"]["process.memory.usage"] > 0
    assert apart["ours"]["process.cpu.utilization"] >= 0
    after = figures.look({"ours": os.getpid()})["ours"]
    assert after["process.disk.read"] >= alone["process.disk.read"]


class Answering:
    """A mesh in which one site is cut off."""

    async def request(self, command: Echo, *, deadline_s: float, attempt_s: float) -> EchoAnswer:
        if command.site == "cloud":
            raise NOBODY
        return EchoAnswer(payload=command.payload)


async def test_probe_when_somebody_does_not_answer_then_is_no_sample() -> None:
    bus = cast("Any", Answering())
    assert await probe(bus, "cloud") == []
    found = {s.metric: (s.entity, s.value > 0) for s in await probe(bus, "hub")}
    assert found == {"link.round_trip": ("link:hub", True), "link.bandwidth": ("link:hub", True)}


def test_bandwidth_when_the_link_is_long_then_its_delay_is_not_counted() -> None:
    assert bandwidth(0.15, 0.05) == pytest.approx(2 * LARGE_BYTES / 0.1)
    assert bandwidth(0.05, 0.05) == pytest.approx(2 * LARGE_BYTES / 0.005)


async def test_metering_when_a_source_fails_then_keeps_what_the_others_tell(tmp_path: Path) -> None:
    async def broken() -> list[Sample]:
        raise OSError("no such stream")

    async def works() -> list[Sample]:
        return [sample(0, 7)]

    metering = Metering("jfk", MetricStore(tmp_path / "metrics.db", clock=lambda: T0), [broken, works])
    await metering.take()
    found = await metering.read(ReadMetrics(site="jfk"))
    assert [(s.site, s.points) for s in found.series] == [("jfk", [(T0, 7.0)])]


async def test_metering_when_the_disk_does_not_take_samples_then_goes_on(tmp_path: Path) -> None:
    directory = tmp_path / "missing"
    metering = Metering("jfk", MetricStore(directory / "metrics.db", clock=lambda: T0), [])
    await metering.add([sample(0)])
    directory.mkdir()
    await metering.add([sample(1)])
    assert len((await metering.read(ReadMetrics(site="jfk"))).series) == 1


@pytest.mark.parametrize("count", [0, 1, SITES_IN_A_ROUND, SITES_IN_A_ROUND + 1, 5 * SITES_IN_A_ROUND + 3])
def test_sites_when_measured_in_turn_then_each_comes_again_soon_and_no_round_has_many(count: int) -> None:
    others = [f"site-{number:03}" for number in range(count)]

    rounds = [in_turn(others, number) for number in range(200)]

    enough = -(-count // SITES_IN_A_ROUND)
    assert all(len(each) == min(count, SITES_IN_A_ROUND) == len(set(each)) for each in rounds)
    for begin in range(len(rounds) - enough):
        assert {site for each in rounds[begin : begin + enough] for site in each} == set(others)
