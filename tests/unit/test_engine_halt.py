"""A halt ends a query between two micro-batches, whatever its planner does at that moment."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from running.waiting import WITHIN_S, eventually, until
from towpath.contracts.job import Assignment, JobState
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT, Paused
from towpath.contracts.site import EngineSpec
from towpath.engine import queries
from towpath.engine.queries import Queries
from towpath.engine.query import Query
from towpath.engine.settings import EngineSettings
from towpath.streams import pacing
from towpath.streams.sink import SinkConnection

STOP_S = 3 * pacing.LOOK_S
"""Time that Spark takes to interrupt a query, long enough for a planner to notice a pause."""


ASSIGNMENT = Assignment.model_validate(EXAMPLE_ASSIGNMENT)


class Spark(threading.Thread):
    """A query of Spark: it has windows to close, so it begins a micro-batch whenever planning returns."""

    def __init__(self, pause_file: Path, batch_s: float) -> None:
        super().__init__(daemon=True)
        self._jsq = self
        self._pause_file, self._batch_s = pause_file, batch_s
        self._pace = pacing.pace_of(str(pause_file), 3600.0, bursts=False, aligned=False, patient=False)
        self._interrupted = threading.Event()
        self.isActive = True
        self.status = {"isTriggerActive": False}
        self.begun = self.committed = 0

    def run(self) -> None:
        while not self._interrupted.is_set():
            self.status = {"isTriggerActive": True}
            self._pace.await_turn("IN", lambda: 0, self._pause_file.exists)
            if self._interrupted.is_set():
                return
            self._pace.planned("IN", lambda: 0, some=True, all_of_it=True)
            self.begun += 1
            self.committed += not self._interrupted.wait(self._batch_s)
            self.status = {"isTriggerActive": False}

    def stop(self) -> None:
        time.sleep(STOP_S)
        self._interrupted.set()

    def lastProgress(self) -> None:
        return None


def started(directory: Path, batch_s: float) -> tuple[Query, Spark]:
    settings = EngineSettings("jfk", EngineSpec(), "", "engine", "", directory)
    connection = SinkConnection(settings.login, settings.site)
    query = Query.of(cast(Any, None), settings, connection, ASSIGNMENT, directory / "checkpoint")
    spark = Spark(query.pause_file, batch_s)
    query.running = cast(Any, spark)
    spark.start()
    until(lambda: spark.begun)
    return query, spark


def test_halt_when_a_planner_waits_then_no_other_micro_batch_begins(tmp_path: Path) -> None:
    query, spark = started(tmp_path, batch_s=0.0)
    until(lambda: pacing.is_waiting(str(query.pause_file)))

    query.halt(WITHIN_S)

    spark.join(WITHIN_S)
    assert (spark.begun, spark.committed) == (1, 1)


def test_halt_when_a_micro_batch_is_under_way_then_it_is_committed_and_no_other_begins(
    tmp_path: Path,
) -> None:
    query, spark = started(tmp_path, batch_s=0.2)

    query.halt(WITHIN_S)

    spark.join(WITHIN_S)
    assert (spark.begun, spark.committed) == (1, 1)


def test_halt_when_spark_cannot_be_asked_then_the_query_is_stopped_all_the_same(tmp_path: Path) -> None:
    query, spark = started(tmp_path, batch_s=0.0)
    spark.lastProgress = Mock(side_effect=RuntimeError("no bridge"))  # type: ignore[method-assign]

    query.halt(WITHIN_S)

    spark.join(WITHIN_S)
    assert not spark.is_alive()
    assert query.running is None


class Blocked:
    """A query whose start takes until a test says so."""

    def __init__(self, name: str) -> None:
        spec = ASSIGNMENT.spec.model_copy(update={"name": name})
        self.assignment = ASSIGNMENT.model_copy(update={"spec": spec})
        self.telemetry = SimpleNamespace(spans=Mock())
        self.goes_on = threading.Event()
        self.is_halted = False

    def start(self, plan: Any) -> None:
        self.goes_on.wait(WITHIN_S)

    def is_active(self) -> bool:
        return not self.is_halted

    def failure(self) -> str:
        return "stopped from outside"

    def halt(self, within_s: float, traceparent: str | None) -> None:
        self.is_halted = True

    def samples(self) -> list[Any]:
        return []

    def paused(self) -> Paused:
        return Paused(serials={}, batch=None, last_processed_at=None)


@pytest.fixture
async def blocked(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Queries, dict[str, Blocked]]]:
    """Queries of an engine of which none starts."""
    made: dict[str, Blocked] = {}

    def of(_: Any, __: Any, ___: Any, assignment: Assignment, ____: Path) -> Blocked:
        return made.setdefault(assignment.spec.name, Blocked(assignment.spec.name))

    monkeypatch.setattr(queries.Query, "of", of)
    nothing = cast(Any, None)
    engine = Queries(nothing, nothing, nothing)
    yield engine, made
    for query in made.values():
        query.goes_on.set()
    await engine.close()


async def run(engine: Queries, name: str) -> None:
    await engine.run(Blocked(name).assignment, Path("unused"))


async def test_halt_when_many_queries_are_about_to_start_then_finds_a_thread(
    blocked: tuple[Queries, dict[str, Blocked]],
) -> None:
    engine, made = blocked
    await run(engine, "first")
    made["first"].goes_on.set()
    await eventually(lambda: engine._kept["first"].state is JobState.RUNNING)
    for number in range(60):
        await run(engine, f"job-{number}")

    async with asyncio.timeout(WITHIN_S / 2):
        await engine.halt("first", 1.0)

    assert made["first"].is_halted


async def test_halt_when_the_start_does_not_end_then_the_engine_leaves_and_does_not_tell_that_it_is_stopped(
    blocked: tuple[Queries, dict[str, Blocked]], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, made = blocked
    monkeypatch.setattr(queries, "START_LIMIT_S", 0.05)
    monkeypatch.setattr(queries.os, "_exit", Mock(side_effect=RuntimeError("left")))
    await run(engine, "slow")
    await eventually(lambda: engine._kept["slow"].starting is not None)

    with pytest.raises(RuntimeError, match="left"):
        await engine.halt("slow", 1.0)

    assert not made["slow"].is_halted


def test_halt_when_a_micro_batch_takes_too_long_then_it_is_interrupted(tmp_path: Path) -> None:
    query, spark = started(tmp_path, batch_s=WITHIN_S)

    query.halt(0.0)

    spark.join(WITHIN_S)
    assert (spark.begun, spark.committed) == (1, 0)
