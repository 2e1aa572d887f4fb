"""Spark's Python workers look for garbage after each task, but not among the modules that they loaded."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator

import pytest
from pyspark import daemon

from towpath.operators.python_daemon import FIRST_TASKS, Collector


@pytest.fixture
def collector() -> Iterator[Collector]:
    yield Collector()
    gc.unfreeze()


def test_worker_when_its_first_tasks_have_ended_then_looks_only_at_what_came_later(
    collector: Collector,
) -> None:
    for _ in range(FIRST_TASKS):
        collector.collect()
    left_out = gc.get_freeze_count()

    later = [[number] for number in range(1000)]
    collector.collect()

    assert left_out > 10_000
    assert gc.get_freeze_count() <= left_out
    assert later


def test_spark_when_a_task_has_ended_then_collects_by_the_name_that_is_replaced() -> None:
    assert "gc.collect()" in inspect.getsource(daemon.manager)
