"""The windows of two runs that the monitor forwards, and the place from which on the target's pass."""

from __future__ import annotations

import pytest

from towpath.contracts.errors import TowpathError
from towpath.contracts.migration import Role
from towpath.monitor.windows import WindowResult, Windows
from towpath.synchrony.by_results import ByResults
from towpath.synchrony.cut import Cut
from towpath.synchrony.synchroniser import Synchroniser

Log = list[tuple[str, int, int, str]]
"""Origin, after, through, key."""


def folded(log: Log, synchroniser: Synchroniser | None = None) -> tuple[Windows[str], list[str]]:
    """Return the forwarded results of a log, as `<through><key>`."""
    windows: Windows[str] = Windows(synchroniser or Cut())
    forwarded: list[str] = []
    for place, (origin, after, through, key) in enumerate(log, start=1):
        role = Role.SOURCE if origin == "S" else Role.TARGET
        name = f"{through}{key}"
        taken = windows.take(WindowResult(role, after, through, place, f"{after}/{name}", name))
        forwarded += [result.body for result in taken]
    return windows, forwarded


def test_every_key_is_forwarded_at_once_when_only_the_source_runs() -> None:
    windows, forwarded = folded([("S", 0, 5, "a"), ("S", 0, 5, "b"), ("S", 5, 9, "a")])
    assert forwarded == ["5a", "5b", "9a"]
    assert not windows.settled


def test_rest_of_a_window_is_forwarded_when_the_cut_falls_in_the_middle_of_it() -> None:
    windows, forwarded = folded([("S", 0, 5, "a"), ("T", 2, 8, "a"), ("S", 0, 5, "b"), ("S", 5, 9, "a")])
    assert forwarded == ["5a", "5b"]
    assert windows.settled
    decision = windows.synchroniser.synchronised
    assert decision is not None
    assert [(a.after, a.through) for a in decision.amended] == [(5, 8)]


def test_all_keys_of_the_amended_window_are_passed_over_when_they_come_late() -> None:
    windows, _ = folded([("S", 0, 5, "a"), ("T", 2, 8, "a"), ("S", 5, 9, "a"), ("T", 2, 8, "b")])
    assert windows.position == 4
    assert windows.unfinished() == {Role.TARGET: 8}


def test_target_passes_from_the_window_after_the_amended_one_when_it_was_ahead() -> None:
    log: Log = [("T", 0, 6, "a"), ("T", 6, 12, "a"), ("T", 6, 12, "b"), ("T", 12, 18, "a"), ("S", 0, 8, "a")]
    windows, forwarded = folded(log)
    assert forwarded == ["8a"]
    assert windows.position == 3
    assert windows.unfinished() == {Role.SOURCE: 8}


def test_nothing_is_unfinished_when_later_windows_have_begun() -> None:
    log: Log = [("S", 0, 8, "a"), ("T", 0, 10, "a"), ("S", 8, 15, "a"), ("T", 10, 16, "a")]
    windows, _ = folded(log)
    assert (windows.position, windows.unfinished()) == (2, {})


def test_window_is_held_no_longer_than_until_the_next_result_when_results_are_compared() -> None:
    _, forwarded = folded([("S", 0, 3, "a"), ("S", 0, 3, "b")], ByResults(0))
    assert forwarded == []
    _, forwarded = folded(
        [("S", 0, 3, "a"), ("S", 0, 3, "b"), ("T", 0, 1, "a"), ("S", 0, 3, "c")], ByResults(0)
    )
    assert forwarded == ["3a", "3b", "3c"]


def test_window_of_the_source_is_amended_and_not_forwarded_when_the_target_is_a_little_ahead() -> None:
    windows, forwarded = folded([("S", 0, 3, "a"), ("T", 1, 5, "a"), ("S", 0, 3, "b")], ByResults(2))
    assert forwarded == []
    decision = windows.synchroniser.synchronised
    assert decision is not None
    assert (decision.offset, [(a.after, a.through) for a in decision.amended]) == (-2, [(0, 5)])
    assert (windows.position, windows.unfinished()) == (2, {Role.TARGET: 5})


def test_windows_follow_each_other_when_one_between_them_has_no_accepted_events() -> None:
    windows, forwarded = folded([("S", 0, 5, "a"), ("S", 9, 12, "a"), ("T", 10, 14, "a")])
    assert forwarded == ["5a", "12a"]
    decision = windows.synchroniser.synchronised
    assert decision is not None
    assert decision.cut == 12


def test_result_is_forwarded_once_when_a_restarted_source_publishes_it_again() -> None:
    log: Log = [("S", 0, 5, "a"), ("S", 5, 9, "a"), ("S", 0, 5, "a"), ("S", 5, 9, "a"), ("S", 5, 9, "b")]
    assert folded(log)[1] == ["5a", "9a", "9b"]


def test_log_is_refused_when_windows_of_one_run_overlap() -> None:
    with pytest.raises(TowpathError) as refused:
        folded([("S", 0, 5, "a"), ("S", 3, 9, "a")])
    assert (refused.value.detail.field, refused.value.detail.value) == ("after", 3)
