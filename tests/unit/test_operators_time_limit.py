"""Code of others that does not end: it is interrupted, and what comes after it is not."""

from __future__ import annotations

import time

import pytest

from towpath.operators import time_limit
from towpath.operators.time_limit import within


def test_call_when_it_returns_in_time_then_its_result_is_there() -> None:
    assert within(5.0, lambda: 42) == 42


def test_call_when_it_raises_then_its_exception_comes_through() -> None:
    def fails() -> None:
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        within(5.0, fails)


def test_call_when_it_does_not_end_then_it_is_interrupted_whatever_it_catches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time_limit, "AGAIN_S", 0.05)
    caught = 0

    def stubborn() -> None:
        nonlocal caught
        while True:
            try:
                while True:
                    pass
            except BaseException:
                caught += 1
                if caught == 2:
                    raise

    begun = time.monotonic()
    with pytest.raises(TimeoutError, match=r"within 0\.1 s"):
        within(0.1, stubborn)
    assert caught == 2
    assert time.monotonic() - begun >= 0.1


def test_call_when_it_ends_at_its_limit_then_nothing_later_is_interrupted() -> None:
    def ends_about_then() -> None:
        end = time.monotonic() + 0.003
        while time.monotonic() < end:
            pass

    ended = 0
    for _ in range(200):
        try:
            within(0.003, ends_about_then)
        except TimeoutError:
            ended += 1
        sum(range(2000))
    assert 0 <= ended <= 200
