"""Queries over two sites of a running mesh, of which the job that answers moves while events flow."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.device_events import publish_events
from running.flow import move
from running.query_answers import is_close
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.cli.connection import open_bus
from towpath.contracts.commands import StrategyName
from towpath.queries.checking import check
from towpath.queries.parsing import parse
from towpath.queries.reference import Answer, Event, answers
from towpath.streams.pages import last_serial

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

TEXT = """
s = STREAM FROM topic(topic="site/queried", sites="*", time="at", delay="5 SECONDS", value="v");
mean = COMPUTE AVG(s, 10 SECONDS) EVERY 2 SECONDS BY site;
both = COMPUTE SUM(s, 6 SECONDS) / COUNT(s, 6 SECONDS) EVERY 2 SECONDS WHEN > 1 BY k;
middle = COMPUTE MEDIAN(s, 10 SECONDS) EVERY 2 SECONDS;
changes = COMPUTE DIFF(s) WHEN > 5 BY k;
"""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SITES = ("cloud", "jfk")
TOPIC = "site/queried"
EVENTS, PER_SECOND = 1_500, 25


def history(site: str) -> list[dict[str, Any]]:
    """Return a minute of events. No two sites have one with the same time."""
    random, offset = Random(site), SITES.index(site) * 7_000
    return [
        {
            "at": (BEGIN + timedelta(microseconds=number * 1_000_000 // PER_SECOND + offset)).isoformat(),
            "k": random.choice("ab"),
            "v": random.gauss(3, 2),
        }
        for number in range(EVENTS)
    ]


def told(answer: dict[str, Any]) -> tuple[str, int, tuple[tuple[str, Any], ...]]:
    """Return query, moment in milliseconds, and key."""
    end = datetime.fromisoformat(answer["window"]["end"])
    key = {name: value for name, value in answer["key"].items() if name != "query"}
    return answer["key"]["query"], round(end.timestamp() * 1e3), tuple(key.items())


def expected(until: datetime) -> list[Answer]:
    seen = [
        Event(site, "site/queried", serial, 0, event)
        for site in SITES
        for serial, event in enumerate(history(site), 1)
    ]
    return answers(check(parse(TEXT)), seen, round(until.timestamp() * 1e6))


async def test_queries_when_the_job_that_answers_moves_then_every_answer_is_there_once(
    shared_mesh: WholeMesh, tmp_path: Path
) -> None:
    file, sites = tmp_path / "queried.sight", shared_mesh.state.sites
    file.write_text(TEXT)
    shared_mesh.json("query", "run", str(file), "--at", "cloud")
    assert [each["name"] for each in shared_mesh.json("query", "list")] == ["queried"]
    end = BEGIN + timedelta(seconds=EVENTS / PER_SECOND + 60)
    wanted = sorted(
        expected(end - timedelta(seconds=10)), key=lambda one: (one.query, one.moment // 1000, one.key)
    )

    async with open_bus(shared_mesh.at) as bus:
        for first in range(0, EVENTS, 250):
            await asyncio.gather(
                *(publish_events(sites[name], TOPIC, history(name)[first : first + 250]) for name in SITES)
            )
            if first == 500:
                moving = asyncio.create_task(move(bus, "queried", "jfk", StrategyName.HANDOVER))
        await moving
        # No pane of theirs closes: punctuations alone say that time is past.
        await asyncio.gather(
            *(publish_events(sites[name], TOPIC, [{"at": end.isoformat()}]) for name in SITES)
        )

        async def all_there() -> bool:
            return await last_serial(bus.connection, "cloud", "OUT_queried") >= len(wanted)

        await eventually(all_there, within_s=STEP_S)
    lines = shared_mesh.run("query", "follow", "queried", "--once", "--json").stdout.splitlines()
    shared_mesh.json("query", "remove", "queried", "--now", "--purge")

    found = sorted(map(json.loads, lines), key=told)
    assert [told(one) for one in found] == [(one.query, one.moment // 1000, one.key) for one in wanted]
    assert all(is_close(one.value, got["values"]["value"]) for one, got in zip(wanted, found, strict=True))
