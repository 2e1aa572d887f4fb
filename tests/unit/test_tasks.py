"""Cancelled tasks end, also those that overheard it once; waiting for a condition ends with its answer."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from running.waiting import WITHIN_S
from towpath import tasks
from towpath.tasks import NotInTime, check_cancelled, end, one_is_set, unless, until, wait_until


async def overhear(times: int) -> None:
    """Go on `times` times although cancelled, as `wait_for` may."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if times == 0:
                raise
            times -= 1


async def test_task_when_it_overhears_its_cancellation_then_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "CANCEL_AGAIN_S", 0.01)
    deaf = [asyncio.create_task(overhear(times)) for times in (0, 1, 3)]
    await asyncio.sleep(0)
    await asyncio.wait_for(end([*deaf, None]), WITHIN_S)
    assert all(task.cancelled() for task in deaf)


async def test_tasks_when_one_had_failed_then_the_others_end_and_nothing_is_raised() -> None:
    async def fail() -> None:
        raise ValueError

    failed, other = asyncio.create_task(fail()), asyncio.create_task(overhear(0))
    await asyncio.sleep(0)
    await end([failed, other])
    assert isinstance(failed.exception(), ValueError)
    assert other.cancelled()


async def test_loop_when_a_call_in_it_swallowed_the_cancellation_then_ends_at_the_next_check() -> None:
    rounds: list[int] = []

    async def loop() -> None:
        while True:
            check_cancelled()
            rounds.append(1)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    task = asyncio.create_task(loop())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=WITHIN_S)
    assert (task.cancelled(), rounds) == (True, [1])


async def test_waiting_when_the_condition_becomes_true_then_returns_its_answer() -> None:
    answers = iter([None, "", "ready"])

    async def condition() -> str | None:
        return next(answers)

    assert await until(condition, WITHIN_S, 0.0) == "ready"


async def test_waiting_when_the_condition_stays_false_then_raises_after_asking_once_at_least() -> None:
    asked: list[int] = []

    async def condition() -> bool:
        asked.append(1)
        return False

    with pytest.raises(NotInTime):
        await until(condition, 0.0, 0.0)
    assert asked == [1]


def test_blocking_wait_when_the_condition_becomes_true_or_not_then_answers_as_the_other() -> None:
    answers = iter([0, 0, 7])
    assert wait_until(lambda: next(answers), WITHIN_S, 0.0) == 7
    with pytest.raises(NotInTime):
        wait_until(lambda: False, 0.0, 0.0)


async def test_work_when_it_ends_first_then_its_result_is_returned_and_the_other_wait_ends() -> None:
    async def work() -> int:
        return 7

    stop = asyncio.Event()
    assert await unless(stop.wait(), work()) == 7
    assert len(asyncio.all_tasks()) == 1


async def test_work_when_the_end_comes_first_then_is_cancelled_and_nothing_is_returned() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_soon(stop.set)
    assert await unless(stop.wait(), overhear(0)) is None
    assert len(asyncio.all_tasks()) == 1


async def test_work_when_it_has_failed_then_its_error_is_raised() -> None:
    async def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await unless(asyncio.Event().wait(), fail())


async def test_events_when_one_is_set_then_the_wait_for_them_ends() -> None:
    first, second = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().call_soon(second.set)
    await asyncio.wait_for(one_is_set(first, second), WITHIN_S)
    assert len(asyncio.all_tasks()) == 1
