"""Metrics over HTTP, from a real collector: what migrations cost, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from running.api import JOB, WAIT, Api
from running.promises import promise
from running.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def moved(api: Api, to: str) -> str:
    """Migrate a job. Return the id of the migration once it has ended."""
    request = {"to": to, "strategy": "general"}
    status, migration = await api.send("POST", "/jobs/late/migrations", json=request, headers=WAIT)
    assert status == 201
    return migration["operation"]


async def values(api: Api, migration: str) -> dict[str, list[float]]:
    """Return metric → values of a migration and its steps, over all time."""
    path = f"/series?entities=migration:{migration}*&since=2026-01-01T00:00:00Z"
    status, body = await api.send("GET", path)
    assert status == 200
    found: dict[str, list[float]] = {}
    for series in body["series"]:
        assert series["site"] == "hub"
        found.setdefault(series["metric"], []).extend(value for _, value in series["points"])
    return found


async def test_migration_when_it_ends_then_has_samples_once_also_if_the_collector_was_away(api: Api) -> None:
    assert (await api.send("POST", "/jobs", json=JOB, headers=WAIT))[0] == 201
    first = await moved(api, "lga")

    async def sampled(migration: str) -> bool:
        return {"migration.duration", "migration.state", "migration.step.duration"} <= set(
            await values(api, migration)
        )

    await eventually(lambda: sampled(first))
    before = await values(api, first)
    collector = api.others.pop("collector")
    collector.kill()
    await collector.wait()
    second = await moved(api, "jfk")
    await api.start_others()
    await eventually(lambda: sampled(second))
    assert await values(api, first) == before
    assert len((await values(api, second))["migration.duration"]) == 1
    assert len(before["migration.step.duration"]) > 3


@promise("metrics")
async def test_prometheus_when_it_scrapes_then_gets_the_hubs_processes(api: Api) -> None:
    async def scraped() -> bool:
        async with api.client.get("/metrics") as response:
            text = await response.text()
            assert response.status == 200
        return 'towpath_process_memory_usage_bytes{entity="process",name="hub",site="hub"}' in text

    await eventually(scraped)


async def test_query_when_wrong_then_is_refused_as_on_nats(api: Api) -> None:
    wrong: list[tuple[str, str, str]] = [
        ("metrics=job.latncy", "invalid", "metrics"),
        ("sites=mars", "unknown_site", "sites"),
        ("entities=process:*&limit=1", "invalid", "limit"),
    ]

    async def measured() -> bool:
        return len((await api.send("GET", "/series?entities=process:*"))[1]["series"]) > 1

    await eventually(measured)
    answers = await asyncio.gather(*(api.send("GET", f"/series?{query}") for query, _, _ in wrong))
    told: list[Any] = [(status, problem["code"], problem["field"]) for status, problem in answers]
    assert told == [(422, code, field) for _, code, field in wrong]
    assert all(problem["allowed"] for _, problem in answers)


async def test_query_when_it_names_as_many_patterns_as_it_may_then_is_read(api: Api) -> None:
    """The service refuses its selection, not its length."""
    patterns = "&".join(f"entities={n:x<200}" for n in range(50))
    status, problem = await api.send("GET", f"/series?{patterns}")
    assert (status, problem["field"]) == (422, "entities")


async def test_definitions_when_asked_for_then_come_with_units_and_the_interval(api: Api) -> None:
    status, catalogue = await api.send("GET", "/series/definitions")
    assert (status, catalogue["interval_s"]) == (200, 2.0)
    assert {"name": "job.backlog", "unit": "{event}"}.items() <= next(
        metric for metric in catalogue["metrics"] if metric["name"] == "job.backlog"
    ).items()
