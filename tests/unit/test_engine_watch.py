"""All queries watched together: who is told of an end, and when Spark is asked for a report."""

from __future__ import annotations

import asyncio
import json
import queue
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from running.waiting import WITHIN_S, eventually
from towpath.contracts.job import Assignment, JobState
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.contracts.site import EngineSpec
from towpath.engine.query import Query
from towpath.engine.settings import EngineSettings
from towpath.engine.watch import Watch
from towpath.streams.sink import SinkConnection

INPUT = EXAMPLE_ASSIGNMENT["inputs"][0]["name"]


class Report:
    """Spark's report of a trigger; one that found nothing bears the number of the next micro-batch."""

    def __init__(self, batch: int, serial: int, *, ran: bool = True) -> None:
        self.body = {
            "batchId": batch,
            "timestamp": "2026-01-01T00:00:00Z",
            "durationMs": {"triggerExecution": 5, **({"addBatch": 3} if ran else {})},
            "sources": [{"endOffset": {"serial": serial}}],
        }

    def json(self) -> str:
        return json.dumps(self.body)


class SparkQuery:
    """A running query: PySpark's object, and Spark's behind it."""

    def __init__(self) -> None:
        self._jsq = self
        self.isActive = True
        self.error: str | None = None
        self.report: Report | None = None
        self.asked = 0

    def exception(self) -> str | None:
        return self.error

    def lastProgress(self) -> Report | None:
        self.asked += 1
        return self.report

    def end(self, error: str | None) -> None:
        self.isActive, self.error = False, error


class Streams:
    """Spark's manager of queries: tells of an end until it is told to forget it."""

    def __init__(self) -> None:
        self.ends: queue.Queue[str] = queue.Queue()
        self.told: str | None = None

    def awaitAnyTermination(self, timeout: float) -> bool:
        try:
            self.told = self.told or self.ends.get(timeout=0.05)
        except queue.Empty:
            return False
        if self.told == "failed":
            raise StreamingQueryException("it failed")
        return True

    def resetTerminated(self) -> None:
        self.told = None


class Session:
    def __init__(self) -> None:
        self.streams = Streams()


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
async def watch(session: Session) -> AsyncIterator[Watch]:
    watch = Watch(cast(SparkSession, session))
    yield watch
    await watch.close()


def started(directory: Path, name: str) -> tuple[Query, SparkQuery]:
    settings = EngineSettings("jfk", EngineSpec(), "", "engine", "", directory)
    assignment = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
    checkpoint = directory / name / "checkpoint"
    query = Query.of(
        cast(Any, None), settings, SinkConnection(settings.login, settings.site), assignment, checkpoint
    )
    spark = SparkQuery()
    query.running = cast(Any, spark)
    return query, spark


def commit(query: Query, batch: int) -> None:
    commits = query.checkpoint / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    (commits / str(batch)).touch()


def serial_of(query: Query) -> int | None:
    return query.status(JobState.RUNNING).serials.get(INPUT)


@pytest.mark.parametrize("how", ["stopped", "failed"])
async def test_watch_when_one_query_ends_then_its_keeper_is_told_why_and_others_are_not(
    session: Session, watch: Watch, tmp_path: Path, how: str
) -> None:
    ending, spark = started(tmp_path, "ending")
    going_on, _ = started(tmp_path, "going-on")
    end = asyncio.create_task(watch.end_of(ending))
    other = asyncio.create_task(watch.end_of(going_on))
    await asyncio.sleep(0)
    spark.end("it failed" if how == "failed" else None)
    session.streams.ends.put(how)
    async with asyncio.timeout(WITHIN_S):
        assert await end == ("it failed" if how == "failed" else "stopped from outside")
    assert not other.done()
    other.cancel()


async def test_watch_when_a_query_has_ended_before_it_is_watched_then_its_keeper_is_told(
    watch: Watch, tmp_path: Path
) -> None:
    query, spark = started(tmp_path, "short")
    spark.end("gone at once")
    async with asyncio.timeout(WITHIN_S):
        assert await watch.end_of(query) == "gone at once"


async def test_watch_when_a_query_makes_progress_then_it_is_taken_in(watch: Watch, tmp_path: Path) -> None:
    query, spark = started(tmp_path, "busy")
    keeping = asyncio.create_task(watch.end_of(query))
    commit(query, 0)
    spark.report = Report(0, serial=7)
    await eventually(lambda: serial_of(query) == 7)
    keeping.cancel()


def test_progress_when_nothing_new_is_committed_then_spark_is_not_asked(tmp_path: Path) -> None:
    query, spark = started(tmp_path, "idle")
    commit(query, 0)
    spark.report = Report(0, serial=7)
    for _ in range(5):
        query.take_in_progress()
    assert (spark.asked, serial_of(query)) == (1, 7)


def test_progress_when_nothing_was_ever_committed_then_the_first_report_says_where_it_stands(
    tmp_path: Path,
) -> None:
    query, spark = started(tmp_path, "fresh")
    query.take_in_progress()
    spark.report = Report(0, serial=3, ran=False)
    for _ in range(3):
        query.take_in_progress()
    assert (spark.asked, serial_of(query)) == (2, 3)


def test_progress_when_the_report_comes_after_the_commit_then_spark_is_asked_until_it_comes(
    tmp_path: Path,
) -> None:
    query, spark = started(tmp_path, "late")
    commit(query, 0)
    spark.report = Report(0, serial=7)
    query.take_in_progress()
    commit(query, 1)
    spark.report = Report(1, serial=7, ran=False)
    query.take_in_progress()
    assert serial_of(query) == 7
    spark.report = Report(1, serial=9)
    query.take_in_progress()
    query.take_in_progress()
    assert (spark.asked, serial_of(query)) == (3, 9)
