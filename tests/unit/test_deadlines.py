"""Deadlines of commands at their receiver."""

from __future__ import annotations

import pytest

from towpath.bus import deadlines
from towpath.bus.deadlines import UNTOLD_S, check_in_time, counting, keep_no_deadline, waiting
from towpath.contracts.errors import ErrorCode, TowpathError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [1000.0]
    monkeypatch.setattr(deadlines, "seconds_since_boot", lambda: time[0])
    return time


def test_command_when_its_sender_has_stopped_waiting_then_is_refused(clock: list[float]) -> None:
    with counting(waiting(5.0)):
        clock[0] += 4.9
        check_in_time()
        clock[0] += 2.0
        with pytest.raises(TowpathError, match=r"1\.9 s longer") as refused:
            check_in_time()
    assert refused.value.detail.code is ErrorCode.DEADLINE
    check_in_time()


@pytest.mark.parametrize("headers", [None, {}, {"Towpath-Waits-S": "soon"}])
def test_command_when_it_does_not_tell_how_long_then_there_is_a_usual_time(
    clock: list[float], headers: dict[str, str] | None
) -> None:
    with counting(headers):
        clock[0] += UNTOLD_S
        check_in_time()
        clock[0] += 1.0
        with pytest.raises(TowpathError):
            check_in_time()
        keep_no_deadline()
        check_in_time()
