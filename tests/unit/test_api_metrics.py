"""Metrics over HTTP: parameters become a selection, and the newest values Prometheus's text."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from api_trial import Trial, running_api

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.metrics import Aggregation, QueryMetrics, Series, SeriesList
from towpath.contracts.rest import JSON
from towpath.contracts.storage import QueryValues, ValueSeriesList

OLD_S = 4000.0


def series(metric: str, value: float, *, entity: str = "job:late", age_s: float = 0.0) -> Series:
    return Series(site="jfk", entity=entity, metric=metric, unit="1", points=[(time.time() - age_s, value)])


@pytest.fixture
async def trial() -> AsyncIterator[Trial]:
    async with running_api() as started:
        started.coordinator.answers = {QueryMetrics: lambda _: SeriesList(series=[])}
        yield started


async def test_series_when_lists_are_given_then_commas_part_them(trial: Trial) -> None:
    query = "metrics=job.*,stream.events&entities=job:late&sites=jfk,hub&since=2026-01-01T00:00:00Z&step_s=10"
    response, _ = await trial.send("GET", f"/series?{query}&aggregation=max")
    assert response.status == 200
    asked = trial.coordinator.newest()
    assert (asked.metrics, asked.entities, asked.sites) == (
        ["job.*", "stream.events"],
        ["job:late"],
        ["jfk", "hub"],
    )
    assert (asked.step_s, asked.aggregation) == (10, Aggregation.MAX)
    assert asked.since.isoformat() == "2026-01-01T00:00:00+00:00"


async def test_series_when_nothing_is_given_then_the_newest_of_all_are_asked_for(trial: Trial) -> None:
    assert (await trial.send("GET", "/series"))[0].status == 200
    asked = trial.coordinator.newest()
    assert asked == QueryMetrics(id=asked.id)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("metrics=", "metrics"),
        ("metrics=a,,b", "metrics"),
        ("metrics=job%20events", "metrics"),
        ("sites=Mars", "sites.0"),
        ("since=yesterday", "since"),
        ("since=2026-13-01T00:00:00Z", "since"),
        ("step_s=0", "step_s"),
        ("step_s=5", None),
        ("aggregation=median", "aggregation"),
        ("limit=1000000", "limit"),
        ("until=2026-01-01T00:00:00Z", None),
        ("metric=job.events", "metric"),
    ],
)
async def test_series_when_a_parameter_is_wrong_then_is_refused_by_name(
    trial: Trial, query: str, field: str | None
) -> None:
    response, problem = await trial.send("GET", f"/series?{query}")
    assert (response.status, problem["code"], problem.get("field")) == (422, "invalid", field)
    assert trial.coordinator.asked == []


async def test_series_when_the_collector_refuses_then_the_problem_says_what_is_allowed(trial: Trial) -> None:
    trial.coordinator.failure = TowpathError(
        ErrorCode.INVALID, "no such metric", field="metrics", value="job.x", allowed=["job.events"]
    )
    response, problem = await trial.send("GET", "/series?metrics=job.x")
    assert (response.status, problem["field"], problem["allowed"]) == (422, "metrics", ["job.events"])


async def test_values_when_a_share_is_given_then_is_asked_for(trial: Trial) -> None:
    trial.coordinator.answers[QueryValues] = lambda _: ValueSeriesList(series=[], shares={"jfk": 0.6})

    response, answer = await trial.send("GET", "/values?wanted=range&share=0.8")

    assert (response.status, answer["shares"]) == (200, {"jfk": 0.6})
    assert trial.coordinator.newest().share == 0.8


async def test_values_when_a_share_is_too_small_then_is_refused_by_name(trial: Trial) -> None:
    response, problem = await trial.send("GET", "/values?wanted=range&share=0.05")

    assert (response.status, problem["field"], trial.coordinator.asked) == (422, "share", [])


async def scraped(trial: Trial, *newest: Series) -> list[str]:
    trial.coordinator.answers[QueryMetrics] = lambda _: SeriesList(series=list(newest))
    async with trial.client.request("GET", "/metrics", headers={"Authorization": "Bearer t0ken"}) as response:
        assert (response.status, response.content_type) == (200, "text/plain")
        return [line for line in (await response.text()).splitlines() if not line.startswith("#")]


async def test_scrape_when_there_are_values_then_names_have_units_and_labels(trial: Trial) -> None:
    lines = await scraped(
        trial,
        series("job.events", 7),
        series("job.latency.end_to_end.p95", 0.5),
        series("site.cpu.utilization", 1.5, entity="site"),
        series("migration.step.duration", 2, entity="migration:m1/pause", age_s=OLD_S / 2),
        series("rule.wait_s", 3, entity="rule:jfk/jfk-engine"),
    )
    assert lines == [
        'towpath_job_events_total{entity="job",name="late",site="jfk"} 7.0',
        'towpath_job_latency_end_to_end_seconds{entity="job",name="late",quantile="0.95",site="jfk"} 0.5',
        'towpath_migration_step_duration_seconds{entity="migration",name="m1",site="jfk",step="pause"} 2.0',
        'towpath_rule_wait_s{entity="rule",name="jfk/jfk-engine",site="jfk"} 3.0',
        'towpath_site_cpu_utilization_ratio{entity="site",name="",site="jfk"} 1.5',
    ]


async def test_scrape_when_a_value_is_old_then_leaves_it_out(trial: Trial) -> None:
    old: list[Any] = [
        series("job.events", 7, age_s=OLD_S),
        series("migration.duration", 2, entity="migration:m1", age_s=OLD_S),
    ]
    assert await scraped(trial, *old) == []


async def test_scrape_when_without_token_then_is_refused(trial: Trial) -> None:
    async with trial.client.request("GET", "/metrics") as response:
        assert response.status == 401


async def test_scrape_when_the_client_takes_only_json_then_is_refused(trial: Trial) -> None:
    response, problem = await trial.send("GET", "/metrics", headers={"Accept": JSON})
    assert (response.status, problem["allowed"]) == (406, ["text/plain"])
