"""Operations and applies run in tasks that end, go on after errors, and can be left where they are."""

from __future__ import annotations

import asyncio

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.coordinator import durable_tasks
from towpath.coordinator.durable_tasks import DurableTasks
from towpath.protocols.runner import Superseded


async def test_task_when_started_twice_then_runs_once_for_both() -> None:
    runs: list[str] = []

    async def run(identifier: str) -> int:
        runs.append(identifier)
        return len(runs)

    tasks = DurableTasks("operation", run)
    one, other = tasks.start("m1"), tasks.start("m1")
    assert await one == await other == 1
    assert runs == ["m1"]


async def test_task_when_it_has_ended_then_can_be_started_again_and_its_end_is_heard() -> None:
    over: list[str] = []

    async def run(identifier: str) -> str:
        return identifier

    tasks = DurableTasks("operation", run, over.append)
    await tasks.start("m1")
    await asyncio.sleep(0)
    assert over == ["m1"]
    assert await tasks.start("m1") == "m1"


async def test_task_when_an_unforeseen_error_comes_then_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_tasks, "AGAIN_AFTER_S", 0.0)
    errors = [RuntimeError("Redis said something new"), TowpathError(ErrorCode.FAILED, "refused")]

    async def run(identifier: str) -> str:
        if errors:
            raise errors.pop()
        return identifier

    assert await DurableTasks("apply", run).start("a1") == "a1"
    assert errors == []


async def test_task_when_an_own_write_shows_up_late_then_goes_on_from_its_journal() -> None:
    errors: list[Exception] = [Superseded("m1")]

    async def run(identifier: str) -> str:
        if errors:
            raise errors.pop()
        return identifier

    assert await DurableTasks("operation", run).start("m1") == "m1"


async def test_task_when_another_coordinator_has_taken_over_then_ends_and_says_so() -> None:
    async def run(identifier: str) -> str:
        raise Superseded(identifier)

    with pytest.raises(TowpathError, match="operation m1 is run by another coordinator") as refused:
        await DurableTasks("operation", run).start("m1")
    assert refused.value.detail.code is ErrorCode.UNREACHABLE


async def test_tasks_when_stopped_then_are_left_where_they_are() -> None:
    begun = asyncio.Event()

    async def run(identifier: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    tasks = DurableTasks("operation", run)
    task = tasks.start("m1")
    await begun.wait()
    await tasks.stop()
    assert task.cancelled()
