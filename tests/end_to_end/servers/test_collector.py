"""The collector on real servers: one answer from all sites, even when one of them is out of reach."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from typer.testing import CliRunner, Result

from running.collector import Collecting, collecting
from running.links import mesh_with_links
from running.mesh import Mesh
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.cli.__main__ import app
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.links import LinkConditions, RestoreLink, ShapeLink
from towpath.contracts.metrics import Echo, Metric, QueryMetrics, SeriesList

pytestmark = pytest.mark.asyncio(loop_scope="module")

CUT_S = 8.0
"""Longer than the collector needs to notice that the site is silent."""

CPU = ["site.cpu.utilization"]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with mesh_with_links(tmp_path_factory.mktemp("mesh")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def trial(mesh: Mesh) -> AsyncIterator[Collecting]:
    """Run a collector for all tests, and agents that measure as long as the module's loop runs."""
    async with collecting(mesh) as started:
        await eventually(lambda: measured(started, {"jfk", "lga"}))
        yield started


async def measured(trial: Collecting, sites: set[str]) -> bool:
    """True if every site has reported its metrics."""
    found: SeriesList = await trial.ask(QueryMetrics(metrics=CPU))
    return {series.site for series in found.series} == sites and not found.unreached


async def run(trial: Collecting, *arguments: str) -> Result:
    command = ["--home", str(trial.running.home.root), "metrics", *arguments]
    return await asyncio.to_thread(CliRunner().invoke, app, command)


@promise("metrics")
async def test_series_when_asked_for_then_come_from_all_sites_and_the_hub(trial: Collecting) -> None:
    async def complete() -> bool:
        found: SeriesList = await trial.ask(QueryMetrics())
        known = {(series.site, series.entity, series.metric) for series in found.series}
        wanted = {
            ("hub", "process:hub", "process.cpu.utilization"),
            ("hub", "process:hub", "process.memory.usage"),
            ("hub", "link:jfk", "link.round_trip"),
            ("hub", "link:lga", "link.bandwidth"),
            ("jfk", "site", "site.cpu.utilization"),
            ("lga", "site", "site.cpu.utilization"),
        }
        return wanted <= known

    await eventually(complete)


async def test_series_when_only_one_site_is_wanted_then_are_of_that_site(trial: Collecting) -> None:
    found: SeriesList = await trial.ask(QueryMetrics(sites=["lga"]))
    assert {series.site for series in found.series} == {"lga"}


async def test_hub_when_asked_to_echo_then_does(trial: Collecting) -> None:
    async def answered() -> bool:
        echo = await trial.agents["jfk"].bus.request(Echo(site="hub", payload="abc"), deadline_s=WITHIN_S)
        return echo.payload == "abc"

    await eventually(answered)


async def test_what_a_rule_measured_when_heard_then_is_kept_at_the_hub(trial: Collecting) -> None:
    metric = Metric(site="jfk", entity="jfk-engine", name="wait_s", value=0.5, at=datetime.now(UTC))

    async def kept() -> bool:
        await trial.agents["jfk"].bus.publish(metric)
        found: SeriesList = await trial.ask(QueryMetrics(metrics=["rule.wait_s"]))
        return [(s.site, s.entity, s.points[0][1]) for s in found.series] == [
            ("hub", "rule:jfk/jfk-engine", 0.5)
        ]

    await eventually(kept)


async def test_samples_when_a_site_was_cut_off_then_none_is_missing(trial: Collecting) -> None:
    begun = datetime.now(UTC)
    cut = ShapeLink(site="jfk", conditions=LinkConditions(cut=True))
    loop = asyncio.get_running_loop()
    await trial.ask(cut)
    try:
        since = loop.time()

        async def long_enough() -> bool:
            during: SeriesList = await trial.ask(QueryMetrics(metrics=CPU))
            others = "lga" in {series.site for series in during.series}
            return set(during.unreached) == {"jfk"} and others and loop.time() - since > CUT_S

        await eventually(long_enough)
    finally:
        await trial.ask(RestoreLink(site="jfk"))
    await eventually(lambda: measured(trial, {"jfk", "lga"}))
    [series] = (await trial.ask(QueryMetrics(metrics=CPU, sites=["jfk"], since=begun))).series
    stored = await asyncio.to_thread(
        trial.agents["jfk"].store.read, QueryMetrics(metrics=CPU, since=begun), "jfk"
    )
    # All samples of the site at that moment, none left out. It goes on measuring.
    assert series.points == stored[0].points[: len(series.points)]
    assert series.points[-1][0] - series.points[0][0] > CUT_S


@pytest.mark.parametrize(
    ("wrong", "code", "field"),
    [
        ({"metrics": ["job.latncy"]}, ErrorCode.INVALID, "metrics"),
        ({"sites": ["mars"]}, ErrorCode.UNKNOWN_SITE, "sites"),
        ({"limit": 1}, ErrorCode.INVALID, "limit"),
    ],
)
async def test_query_when_wrong_then_is_refused_with_what_is_allowed(
    trial: Collecting, wrong: dict[str, Any], code: ErrorCode, field: str
) -> None:
    with pytest.raises(TowpathError) as refused:
        await trial.ask(QueryMetrics(**wrong))
    detail = refused.value.detail
    assert (detail.code, detail.field) == (code, field)
    assert detail.allowed


async def test_command_line_when_metrics_are_wanted_then_shows_them(trial: Collecting) -> None:
    newest = await run(trial, "site.*", "--json")
    assert newest.exit_code == 0, newest.stderr
    assert {series["site"] for series in json.loads(newest.stdout)["series"]} >= {"jfk", "lga"}
    table = await run(trial, "site.cpu.utilization", "--site", "jfk")
    assert "site.cpu.utilization" in table.stdout
    ranged = await run(trial, "site.cpu.utilization", "--last", "1m", "--step", "1s", "--aggregation", "max")
    assert ranged.exit_code == 0, ranged.stderr
    assert "jfk" in ranged.stdout


async def test_command_line_when_the_name_is_wrong_then_says_which_are_near(trial: Collecting) -> None:
    wrong = await run(trial, "job.backlogg")
    assert wrong.exit_code == 2
    assert wrong.stderr.count("\n") == 1
    assert "job.backlog" in wrong.stderr


async def test_metrics_when_a_receiver_is_named_then_reach_it_by_otlp(trial: Collecting) -> None:
    received: dict[str, set[str]] = {}

    async def take(request: web.Request) -> web.Response:
        sent = ExportMetricsServiceRequest.FromString(await request.read())
        for metric in (m for r in sent.resource_metrics for s in r.scope_metrics for m in s.metrics):
            points = metric.sum.data_points if metric.HasField("sum") else metric.gauge.data_points
            sites = {a.value.string_value for p in points for a in p.attributes if a.key == "site"}
            received.setdefault(metric.name, set()).update(sites)
        return web.Response()

    receiver = web.Application()
    receiver.router.add_post("/v1/metrics", take)
    async with TestServer(receiver) as server:
        endpoint = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": str(server.make_url("")),
            "OTEL_METRIC_EXPORT_INTERVAL": "1",
        }

        def complete() -> bool:
            measured = received.get("towpath.site.cpu.utilization") == {"jfk", "lga"}
            return measured and "hub" in received.get("towpath.process.memory.usage", ())

        await trial.kill()
        await trial.start({**os.environ, **endpoint})
        await eventually(complete)
