"""The agent receives state for a job, and stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from running.waiting import WITHIN_S, eventually
from towpath import tasks
from towpath.agent import reception
from towpath.agent.assignments import AssignmentStore
from towpath.agent.reception import Reception
from towpath.checkpoints.manifest import manifest_of
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS


async def test_close_when_a_library_swallows_the_cancellation_then_it_ends_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = asyncio.Event()

    async def swallowing_receive(*_: Any, **__: Any) -> str:
        waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            waiting.clear()
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(reception, "receive", swallowing_receive)
    monkeypatch.setattr(tasks, "CANCEL_AGAIN_S", 0.01)
    opened = Reception("cloud", cast("Any", None), AssignmentStore(tmp_path, SPARK_CHECKPOINTS), "s")
    assignment = Assignment.model_validate({**EXAMPLE_ASSIGNMENT, "migration": "m1"})
    await opened.open(assignment)
    await asyncio.wait_for(waiting.wait(), WITHIN_S)
    await asyncio.wait_for(opened.close(assignment.spec.name), WITHIN_S)
    assert not waiting.is_set(), "the first cancellation was swallowed"


async def test_open_when_another_operation_brings_state_then_receives_its_transfer_and_no_longer_the_former(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: list[str] = []

    async def receiving(_: Any, operation: str, *__: Any, **___: Any) -> str:
        watched.append(operation)
        try:
            await asyncio.Event().wait()
        finally:
            watched.remove(operation)
        return ""

    monkeypatch.setattr(reception, "receive", receiving)
    opened = Reception("cloud", cast("Any", None), AssignmentStore(tmp_path, SPARK_CHECKPOINTS), "s")
    assignment = Assignment.model_validate({**EXAMPLE_ASSIGNMENT, "migration": "standby-1"})

    for operation in ("standby-1", "standby-1", "standby-2", "m1"):
        await opened.open(assignment.model_copy(update={"migration": operation}))
        await eventually(lambda operation=operation: watched == [operation])
    await opened.close_all()

    assert watched == []


async def test_open_when_the_task_of_the_same_operation_has_died_then_receives_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    async def failing_once(_: Any, operation: str, *__: Any, **___: Any) -> str:
        calls.append(operation)
        if len(calls) == 1:
            raise TypeError("argument should be a str")
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(reception, "receive", failing_once)
    opened = Reception("cloud", cast("Any", None), AssignmentStore(tmp_path, SPARK_CHECKPOINTS), "s")
    assignment = Assignment.model_validate({**EXAMPLE_ASSIGNMENT, "migration": "standby-1"})

    async def receives_again() -> bool:
        await opened.open(assignment)
        return len(calls) == 2

    await eventually(receives_again)
    await opened.close_all()


def test_manifest_when_a_path_is_no_text_then_is_refused() -> None:
    with pytest.raises(TowpathError, match="an unreadable manifest"):
        manifest_of('{"files": [[1, "x"]], "sizes": []}')
