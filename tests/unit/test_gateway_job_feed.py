"""The feed of a Spark job: events by number until committed, and each micro-batch's results once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from running.waiting import eventually
from towpath.gateway.spark import job_feed
from towpath.gateway.spark.job_feed import JobFeed
from towpath.spark_job.feed import Feed
from towpath.spark_job.source import DeviceReader


@asynccontextmanager
async def feeding(
    tmp_path: Path, state: list[Any] | None = None, checkpoint: str = "checkpoint", session: str = "s"
) -> AsyncIterator[tuple[JobFeed, list[dict[str, Any]]]]:
    """Run a feed that goes on where the last one in this directory stood, and collect its reports."""
    reports: list[dict[str, Any]] = []
    feed = JobFeed(tmp_path / "input", session, reports.append)
    (tmp_path / "checkpoint").mkdir(exist_ok=True)
    feed.go_on(state, tmp_path / checkpoint)
    await feed.open()
    feed.ready.set()
    yield feed, reports
    await feed.close()


def take(feed: JobFeed, *numbers: int) -> None:
    for number in numbers:
        feed.take(number, {"n": number})
    feed.store()


def read(feed: JobFeed, after: int) -> list[tuple[int, int]]:
    """Read as Spark does. Return the number of each event, and its content."""
    events, end = DeviceReader(feed.name).read({"number": after})
    found = [(number, json.loads(text)["n"]) for number, text in events]
    assert end["number"] == (found[-1][0] if found else after)
    return found


async def test_events_when_taken_then_are_acknowledged_and_read_by_number(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (feed, reports):
        take(feed, 7, 8)

        assert [each["done"] for each in reports] == [8]
        assert await asyncio.to_thread(read, feed, 0) == [(1, 7), (2, 8)]
        assert await asyncio.to_thread(read, feed, 1) == [(2, 8)]
        assert await asyncio.to_thread(read, feed, 2) == []


async def test_events_when_committed_then_a_new_query_begins_behind_them_also_after_a_restart(
    tmp_path: Path,
) -> None:
    async with feeding(tmp_path) as (feed, _):
        take(feed, 1, 2, 3)
        await asyncio.to_thread(DeviceReader(feed.name).commit, {"number": 2})
    async with feeding(tmp_path) as (feed, _):
        assert await asyncio.to_thread(DeviceReader(feed.name).initialOffset) == {"number": 2}
        take(feed, 4)
        assert await asyncio.to_thread(read, feed, 2) == [(3, 3), (4, 4)]


async def test_events_when_a_killed_run_has_written_them_down_then_do_not_count_twice(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (feed, _):
        take(feed, 1, 2)
    async with feeding(tmp_path) as (feed, _):
        take(feed, 1, 2, 3)
        assert await asyncio.to_thread(read, feed, 0) == [(1, 1), (2, 2), (3, 3)]
    async with feeding(tmp_path, session="another") as (feed, _):
        take(feed, 1)
        assert await asyncio.to_thread(read, feed, 3) == [(4, 1)]


async def test_micro_batch_when_it_runs_again_then_reads_the_same_events(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (feed, _):
        take(feed, 1, 2, 3, 4)

        events = await asyncio.to_thread(
            lambda: list(DeviceReader(feed.name).readBetweenOffsets({"number": 1}, {"number": 3}))
        )

        assert [number for number, _ in events] == [2, 3]


async def test_results_when_they_are_not_kept_yet_then_the_micro_batch_waits(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (feed, reports):
        results = [{"mean": 1}, {"mean": 2}]
        handing = asyncio.create_task(asyncio.to_thread(Feed(feed.name).ask, batch=0, results=results))
        await eventually(lambda: len(reports) == 1)
        again = asyncio.create_task(asyncio.to_thread(Feed(feed.name).ask, batch=0, results=results))

        assert [(each["batch"], each["row"]) for each in reports[0]["results"]] == [(0, 0), (0, 1)]
        assert not handing.done()
        assert not again.done()
        feed.confirmed(reports[0]["confirm"])
        await asyncio.gather(handing, again)
        assert len(reports) == 1


async def test_results_when_a_former_run_handed_them_over_then_do_not_go_again(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (feed, reports):
        handing = asyncio.create_task(asyncio.to_thread(Feed(feed.name).ask, batch=4, results=[{}]))
        await eventually(lambda: len(reports) == 1)
        feed.confirmed(4)
        await handing
    state = reports[0]["state"]

    async with feeding(tmp_path, state) as (feed, reports):
        await asyncio.to_thread(Feed(feed.name).ask, batch=4, results=[{}])
        assert reports == []


async def test_results_when_the_checkpoint_is_another_then_count_from_the_start(tmp_path: Path) -> None:
    for former, present in (("old", "checkpoint"), ("lost", "lost")):
        async with feeding(tmp_path, [str(tmp_path / former), 4], present) as (feed, reports):
            handing = asyncio.create_task(asyncio.to_thread(Feed(feed.name).ask, batch=0, results=[]))
            await eventually(lambda: len(reports) == 1)
            feed.confirmed(0)
            await handing


async def test_events_when_they_are_more_than_there_is_room_for_then_none_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_feed, "INPUT_MB", 1)
    async with feeding(tmp_path) as (feed, reports):
        for number in range(1, 101):
            feed.take(number, {"n": number, "text": "x" * 40_000})
        feed.store()
        stored = reports[-1]["done"]
        assert 0 < stored < 20
        feed.store()
        assert (reports[-1]["done"], feed._log.dropped) == (stored, 0)

        while stored < 100:
            assert await asyncio.to_thread(read, feed, stored - 1) == [(stored, stored)]
            await asyncio.to_thread(DeviceReader(feed.name).commit, {"number": stored})
            assert reports[-1]["done"] > stored
            stored = reports[-1]["done"]
        assert feed._log.dropped == 0
