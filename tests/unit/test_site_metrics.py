"""The metrics that a site publishes: which events are made of which samples, and the table of them."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from running.places import ROOT
from running.waiting import WITHIN_S
from towpath.agent.site_metrics import SiteMetrics
from towpath.contracts.fields import RESERVED_FIELDS
from towpath.contracts.metrics import Sample
from towpath.contracts.metrics_table import METRICS_BY_NAME
from towpath.contracts.site_metrics import ENTITY_TYPES, SITE_METRICS
from towpath.telemetry.intervals import samples_of

AT = datetime(2026, 1, 1, tzinfo=UTC)
SITE = {"nodeID": "jfk", "agentID": "jfk", "time": "2026-01-01T00:00:00+00:00"}


async def not_stored(_: bytes) -> None:
    raise AssertionError("nothing is published")


@pytest.fixture
def metrics() -> SiteMetrics:
    return SiteMetrics("jfk", 4, not_stored)


def used(name: str, at: float, *, sent: float, cpu: float = 1.0) -> list[Sample]:
    values = {
        "process.cpu.utilization": cpu,
        "process.memory.usage": 2.0**21,
        "process.network.received": 0.0,
        "process.network.sent": sent,
    }
    return samples_of(f"process:{name}", at, values)


def test_events_when_a_site_is_measured_then_are_about_its_node_pods_jobs_and_links(
    metrics: SiteMetrics,
) -> None:
    metrics.see(samples_of("link:hub", 1, {"link.round_trip": 0.002}))
    metrics.see(samples_of("job:hourly", 1, {"job.backlog": 3.0, "job.watermark.delay": 9.0}))
    metrics.see(samples_of("process:engine", 1, {"process.memory.usage": 2.0**20}))
    metrics.see(samples_of("process:engine.own", 1, {"process.memory.usage": 2.0**21}))
    metrics.see(samples_of("stream:IN", 1, {"stream.events": 3.0}))
    metrics.see(samples_of("site", 1, {"site.cpu.utilization": 1.0}))

    found = metrics.events(AT)

    pod = {"podNamespace": "towpath", **SITE}
    assert found == [
        {"entityType": "NODE", **SITE, "cpu_ptc": 25.0, "memory_mb": 3.0},
        {"entityType": "POD", "podName": "engine", **pod, "memory_mb": 1.0},
        {"entityType": "POD", "podName": "own", **pod, "memory_mb": 2.0},
        {"entityType": "JOB", "podName": "hourly", **pod, "backlog": 3.0},
        {"entityType": "LINK", "peerID": "hub", **SITE, "round_trip_s": 0.002},
    ]


def test_event_when_a_counter_has_grown_then_says_how_fast_from_the_second_one_on(
    metrics: SiteMetrics,
) -> None:
    seen: list[Any] = []
    for at, sent in ((0, 100.0), (2, 300.0), (4, 400.0), (6, 50.0), (8, 60.0)):
        metrics.see(used("nats", at, sent=sent))
        node, pod = metrics.events(AT)
        assert node.get("network_io") == pod.get("network_io")
        seen.append(pod.get("network_io"))

    assert seen == [None, 100.0, 50.0, None, 5.0]


def test_event_when_samples_came_since_the_last_one_then_has_the_newest_of_them_only(
    metrics: SiteMetrics,
) -> None:
    for at, cpu in ((0, 1.0), (2, 2.0)):
        metrics.see(used("engine", at, sent=0, cpu=cpu))

    assert [event["cpu_ptc"] for event in metrics.events(AT) if "cpu_ptc" in event] == [50.0]
    assert metrics.events(AT) == []


async def test_metrics_when_one_event_is_not_stored_then_the_next_are() -> None:
    stored: list[dict[str, Any]] = []
    is_done = asyncio.Event()
    failures = [TimeoutError("no answer"), None]

    async def store(body: bytes) -> None:
        failure = failures.pop(0)
        metrics.see(samples_of("site", 2, {"site.cpu.utilization": 2.0}))
        if failure is not None:
            raise failure
        stored.append(json.loads(body))
        is_done.set()

    metrics = SiteMetrics("jfk", 4, store)
    metrics.see(samples_of("site", 1, {"site.cpu.utilization": 1.0}))
    keeping = asyncio.create_task(metrics.keep(0.001))
    await asyncio.wait_for(is_done.wait(), WITHIN_S)
    keeping.cancel()

    assert [event["cpu_ptc"] for event in stored] == [50.0]


def test_table_when_it_names_a_metric_then_samples_of_that_entity_have_it() -> None:
    for metric in SITE_METRICS:
        assert metric.entity in ENTITY_TYPES
        assert {METRICS_BY_NAME[name].entity for name in metric.samples} == {metric.entity}
        assert metric.name not in RESERVED_FIELDS


def test_page_when_it_lists_metrics_then_has_all_that_a_site_publishes() -> None:
    page = (ROOT / "docs" / "queries.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`[A-Z]+`[, ]*)+) \| `(\w+)` \|", page, re.MULTILINE)
    told = {(name, metric) for kinds, metric in rows for name in re.findall(r"\w+", kinds)}

    of_pods = {("NODE", name) for name in ("memory_mb", "disk_io", "network_io")}
    assert told == of_pods | {(ENTITY_TYPES[metric.entity], metric.name) for metric in SITE_METRICS}
