"""The metrics of a site in a running mesh, read at the hub as the collector reads them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from running.command_line import MESH_TIMEOUT_S, START_S, UP_S
from running.places import EXAMPLES
from towpath.bus import Bus
from towpath.contracts.credential import Credential
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.links import LinkConditions, RestoreLink, ShapeLink
from towpath.contracts.metrics import QueryMetrics, ReadMetrics, Series, SeriesList
from towpath.contracts.metrics_table import AVAILABILITY, METRICS_TABLE, EntityKind
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.processes import find

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

EVENTS = 1_500
WITHIN_S = 120.0
ANSWER_S = 60.0
"""A killed agent is back within seconds, on a busy machine later."""

CUT_S = 15.0
"""Longer than hub and site need to notice the cut, and enough for several samples on a busy machine."""

ALWAYS_MEASURED = ["job.events", "job.event_rate", "job.backlog", "stream.events", "stream.size",
                   "process.cpu.utilization", "process.memory.usage", "process.network.sent"]  # fmt: skip
"""Metrics with a sample every two seconds while jobs have work."""

JOBS = {"job:clean-jfk", "job:hourly-jfk"}
STREAMS = {"stream:IN", "stream:OUT_clean-jfk", "stream:OUT_hourly-jfk"}
PROCESSES = {"process:nats", "process:engine", "process:agent"}

AT_SITES = {EntityKind.JOB, EntityKind.STREAM, EntityKind.PROCESS, EntityKind.SITE, EntityKind.LINK}

NOT_HERE = {"site.battery.charge", AVAILABILITY}
"""Metrics of a site with a battery, and of one that failed."""

Values = dict[tuple[str, str], float]
"""Entity and metric → newest value."""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Run a site with the jobs of `clean.yaml` and `window.yaml`, which have no work yet."""
    home = Home(tmp_path_factory.mktemp("mesh"))
    try:
        run(home, "up", "--sites", "jfk", "--emulate-links", "--within", str(UP_S))
        for name in ("clean", "window"):
            run(home, "deploy", str(EXAMPLES / f"{name}.yaml"))
        yield home
    finally:
        lifecycle.down(home)


def command_line(home: Home, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "towpath.cli", "--home", str(home.root), *arguments]


def run(home: Home, *arguments: str) -> str:
    command = command_line(home, *arguments)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=START_S).stdout


@contextmanager
def events_flowing(home: Home) -> Iterator[None]:
    command = command_line(home, "replay", "--site", "jfk", "--airport", "JFK", "--rate", "20")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as replaying:
        try:
            yield
        finally:
            replaying.kill()


@asynccontextmanager
async def collector(home: Home) -> AsyncIterator[Bus]:
    state = await asyncio.to_thread(MeshState.load, home)
    async with connected(state, state.login("collector")) as bus:
        yield bus


@asynccontextmanager
async def operator(home: Home) -> AsyncIterator[Bus]:
    state = await asyncio.to_thread(MeshState.load, home)
    async with connected(state, state.operator) as bus:
        yield bus


@asynccontextmanager
async def connected(state: MeshState, user: Credential) -> AsyncIterator[Bus]:
    async with await Bus.connect(state.hub_url, user.user, user.password, name="test", within_s=20) as bus:
        yield bus


async def read(bus: Bus, **selection: Any) -> list[Series]:
    command = ReadMetrics.model_validate({"site": "jfk", **selection})
    return (await bus.request(command, deadline_s=ANSWER_S, attempt_s=3)).series


async def newest(bus: Bus) -> Values:
    return {(s.entity, s.metric): s.points[-1][1] for s in await read(bus)}


def unprocessed(values: Values, stored: int) -> list[str]:
    """Return the figures that do not show yet that both jobs have processed all events of a stream.

    Each figure is measured at its own moment: while jobs work, figures need not agree with each other.
    """
    clean = stored - values.get(("job:clean-jfk", "job.rejected"), 0)
    wanted: Values = {
        ("stream:IN", "stream.events"): stored,
        ("job:clean-jfk", "job.events"): stored,
        ("job:clean-jfk", "job.backlog"): 0,
        ("job:clean-jfk", "job.results"): clean,
        ("stream:OUT_clean-jfk", "stream.events"): clean,
        ("job:hourly-jfk", "job.events"): clean,
        ("job:hourly-jfk", "job.backlog"): 0,
    }
    wrong = [
        f"{entity} {metric}"
        for (entity, metric), value in wanted.items()
        if values.get((entity, metric)) != value
    ]
    # The event that closes a window is processed before the window's result is stored.
    windows = values.get(("job:hourly-jfk", "job.results"), 0)
    if not 0 < windows <= values.get(("stream:OUT_hourly-jfk", "stream.events"), 0):
        wrong.append("job:hourly-jfk job.results")
    # State is measured only every ten seconds: the job with state may still report its first size.
    sizes = [values.get((f"job:{job}", "job.checkpoint.size"), 0) for job in ("clean-jfk", "hourly-jfk")]
    return wrong if sizes[0] < sizes[1] else [*wrong, "job:hourly-jfk job.checkpoint.size"]


async def until_settled(bus: Bus, stored: int) -> Values:
    """Return the newest values once both jobs have processed everything and every metric was measured."""
    every = {metric.name for metric in METRICS_TABLE if metric.entity in AT_SITES} - NOT_HERE
    values: Values = {}

    def missing() -> list[str]:
        return sorted(every - {metric for _, metric in values}) + unprocessed(values, stored)

    try:
        async with asyncio.timeout(WITHIN_S):
            while missing():
                values = await newest(bus)
                await asyncio.sleep(0.5)
    except TimeoutError:
        pytest.fail(f"never measured: {missing()}; {values}")
    return values


async def test_site_when_jobs_run_then_measures_all_that_a_site_can(mesh: Home) -> None:
    begun = datetime.now(UTC)
    options = ("--limit", str(EVENTS), "--rate", "200", "--malformed-every", "100", "--close", "--json")
    replayed = await asyncio.to_thread(run, mesh, "replay", "--site", "jfk", "--airport", "JFK", *options)
    stored = json.loads(replayed)["acknowledged"]
    async with collector(mesh) as bus:
        values = await until_settled(bus, stored)
        grown = await read(bus, metrics=["stream.events"], since=begun, step_s=3600, aggregation="rate")

    clean, hourly = (
        {metric: value for (entity, metric), value in values.items() if entity == f"job:{job}"}
        for job in ("clean-jfk", "hourly-jfk")
    )
    assert clean["job.rejected"] >= EVENTS // 100
    assert hourly["job.state.rows"] >= 0
    assert clean["job.checkpoint.size"] > 100
    assert 0 < clean["job.latency.end_to_end.p50"] <= clean["job.latency.end_to_end.max"]
    assert {s.entity for s in grown} == {"stream:IN", "stream:OUT_clean-jfk", "stream:OUT_hourly-jfk"}
    assert grown[0].points[0][1] > 0
    assert all(value >= 0 for key, value in values.items() if key[1] != "job.watermark.delay")


async def test_site_when_it_runs_then_knows_its_processes_and_its_link(mesh: Home) -> None:
    async with collector(mesh) as bus, asyncio.timeout(WITHIN_S):
        while ("link:hub", "link.bandwidth") not in (values := await newest(bus)):
            await asyncio.sleep(0.5)
    memory = {e: v for (e, metric), v in values.items() if metric == "process.memory.usage"}
    assert memory.keys() == {"process:nats", "process:engine", "process:agent"}
    assert memory["process:engine"] > memory["process:agent"] > memory["process:nats"] > 1e6
    assert values["site", "site.cpu.utilization"] > 0
    assert values["site", "site.memory.available"] > 1e6
    assert values["link:hub", "link.round_trip"] > 0
    assert values["link:hub", "link.bandwidth"] > 1e4


async def query(bus: Bus, **selection: Any) -> SeriesList:
    """Return the collector's answer to a selection."""
    return await bus.request(QueryMetrics.model_validate(selection), deadline_s=ANSWER_S)


async def cut_off(bus: Bus) -> tuple[float, float]:
    """Cut the site off for `CUT_S`. Return begin and end of the cut, Unix seconds."""
    await bus.request(ShapeLink(site="jfk", conditions=LinkConditions(cut=True)), deadline_s=ANSWER_S)
    begun = datetime.now(UTC).timestamp()
    try:
        while True:
            found = await query(bus, metrics=["stream.events"])
            ended = datetime.now(UTC).timestamp()
            if "jfk" in found.unreached and ended - begun > CUT_S:
                return begun, ended
            await asyncio.sleep(0.2)
    finally:
        await bus.request(RestoreLink(site="jfk"), deadline_s=ANSWER_S)


async def test_samples_when_a_site_was_cut_off_while_its_jobs_ran_then_none_is_missing_at_the_hub(
    mesh: Home,
) -> None:
    rate: dict[str, Any] = {"metrics": ["job.event_rate"], "entities": ["job:clean-jfk"]}
    with events_flowing(mesh):
        async with operator(mesh) as bus, asyncio.timeout(WITHIN_S):
            while not any(s.points[-1][1] > 0 for s in (await query(bus, **rate)).series):
                await asyncio.sleep(0.2)
            since = datetime.now(UTC)
            begun, ended = await cut_off(bus)
            while True:
                found = await query(bus, metrics=ALWAYS_MEASURED, sites=["jfk"], since=since)
                if found.series and all(series.points[-1][0] > ended for series in found.series):
                    break
                await asyncio.sleep(0.5)
    assert {series.entity for series in found.series} >= JOBS | STREAMS | PROCESSES
    for series in found.series:
        meanwhile = [at for at, _ in series.points if begun < at < ended]
        assert len(meanwhile) > 1, (series.entity, series.metric)


async def test_samples_when_the_agent_is_killed_then_are_kept_and_go_on(mesh: Home) -> None:
    async with collector(mesh) as bus:
        (stored,) = await read(bus, metrics=["stream.events"], entities=["stream:IN"])
        until = datetime.fromtimestamp(stored.points[-1][0], UTC)
        selection = {"since": datetime.fromtimestamp(0, UTC), "metrics": ["stream.*", "job.backlog"]}
        before = await read(bus, **selection, until=until)
        agent = await asyncio.to_thread(find, mesh.run, "jfk-agent")
        assert agent is not None
        assert agent.process is not None
        os.kill(agent.pid, 9)
        async with asyncio.timeout(WITHIN_S):
            while (await newest(bus)).get(("process:agent", "process.restarts")) != 1:
                await asyncio.sleep(0.2)
        assert await read(bus, **selection, until=until) == before


async def test_read_when_too_much_is_asked_for_then_is_refused_with_what_fits(mesh: Home) -> None:
    async with collector(mesh) as bus:
        with pytest.raises(TowpathError) as refused:
            await read(bus, since=datetime.fromtimestamp(0, UTC), limit=10)
    assert (refused.value.detail.code, refused.value.detail.field) == (ErrorCode.INVALID, "limit")
