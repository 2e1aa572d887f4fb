"""Tests wait until a condition holds, and name the one that does not."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from running.waiting import eventually, until


def test_condition_when_it_comes_to_hold_then_its_result_is_returned() -> None:
    answers = iter(["", "", "here"])
    assert until(lambda: next(answers)) == "here"


def test_condition_when_it_never_holds_then_the_failure_names_it() -> None:
    with pytest.raises(AssertionError, match=r"did not come about within 0 s: .*1 > 2"):
        until(lambda: 1 > 2, within_s=0)


@pytest.mark.parametrize("waits", [False, True])
async def test_condition_when_it_is_awaited_then_other_tasks_go_on(waits: bool) -> None:
    came = asyncio.Event()
    asyncio.get_running_loop().call_soon(came.set)

    async def has_come() -> bool:
        return came.is_set()

    assert await eventually(has_come if waits else came.is_set)


async def test_condition_when_it_never_answers_then_the_failure_names_it() -> None:
    with pytest.raises(AssertionError, match=r"wait\(\)"):
        await eventually(lambda: asyncio.Event().wait(), within_s=0.01)


async def test_condition_when_a_server_does_not_answer_it_in_time_then_is_asked_again() -> None:
    asked: list[str] = []

    async def answers() -> bool:
        asked.append("again")
        if len(asked) < 3:
            raise TimeoutError("its own")
        return True

    assert await eventually(answers)


async def test_condition_when_it_only_times_out_then_the_failure_names_it() -> None:
    async def fails() -> None:
        raise TimeoutError("its own")

    with pytest.raises(AssertionError, match="fails"):
        await eventually(fails, within_s=0.1)


async def test_condition_when_it_forgets_the_cancellation_of_the_limit_then_the_wait_ends() -> None:
    asked: list[str] = []

    async def forgets() -> bool:
        asked.append("again")
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)
        return len(asked) > 3

    with pytest.raises(AssertionError, match="forgets"):
        await eventually(forgets, within_s=0.01)
