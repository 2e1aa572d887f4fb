"""A halt ends a query between two micro-batches, whatever its planner does at that moment."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, cast

from running.waiting import WITHIN_S, until
from towpath.contracts.job import Assignment
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.contracts.site import EngineSpec
from towpath.engine.query import Query
from towpath.engine.settings import EngineSettings
from towpath.streams import pacing
from towpath.streams.sink import SinkConnection

STOP_S = 3 * pacing.LOOK_S
"""Time that Spark takes to interrupt a query, long enough for a planner to notice a pause."""


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
    assignment = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
    connection = SinkConnection(settings.login, settings.site)
    query = Query.of(cast(Any, None), settings, connection, assignment, directory / "checkpoint")
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


def test_halt_when_a_micro_batch_takes_too_long_then_it_is_interrupted(tmp_path: Path) -> None:
    query, spark = started(tmp_path, batch_s=WITHIN_S)

    query.halt(0.0)

    spark.join(WITHIN_S)
    assert (spark.begun, spark.committed) == (1, 0)
