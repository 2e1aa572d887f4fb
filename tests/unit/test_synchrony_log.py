"""Synchronisers over the monitor's log: the thesis's decision, and the cut by serial number."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.migration import Role
from towpath.synchrony.by_results import ByResults
from towpath.synchrony.consistency import Consistency
from towpath.synchrony.cut import Cut
from towpath.synchrony.decision import Action, AmendResult, ForwardResult
from towpath.synchrony.logged import LoggedResult
from towpath.synchrony.result import ResultEvent
from towpath.synchrony.synchroniser import Synchroniser

Kind = Callable[[int], Synchroniser]
ROLES = {"S": Role.SOURCE, "T": Role.TARGET}


def log(text: str) -> list[LoggedResult]:
    """`S(0,5]` as origin(after, through], at positions 10, 20, 30 …."""
    found = re.findall(r"([ST])\((\d+),(\d+)\]", text)
    return [
        LoggedResult(ROLES[origin], int(start), int(end), 10 * place, f"id-{place}")
        for place, (origin, start, end) in enumerate(found, start=1)
    ]


def written(action: Action) -> str:
    origin = action.event.origin.name[0]
    if isinstance(action, AmendResult):
        return f"{origin}({action.after},{action.through}]*"
    sign = "" if isinstance(action, ForwardResult) else "-"
    return f"{sign}{origin}({action.event.after},{action.event.through}]"


def taken(synchroniser: Synchroniser, text: str) -> str:
    """The actions in order: `*` amended, `-` dropped."""
    return " ".join(written(action) for event in log(text) for action in synchroniser.take(event))


# --- the thesis's decision over the log ---------------------------------------------------------------


def test_by_results_when_both_counted_the_same_then_nothing_is_amended() -> None:
    synchroniser = ByResults(0)
    actions = taken(synchroniser, "S(0,3] T(0,2] S(3,7] T(2,5] S(7,9] T(5,9] T(9,12] S(9,14] T(12,17]")
    assert actions == "S(0,3] -T(0,2] S(3,7] -T(2,5] S(7,9] -T(5,9] T(9,12] -S(9,14] T(12,17]"
    decision = synchroniser.synchronised
    assert decision is not None
    assert (decision.cut, decision.offset, decision.decided_at, decision.settled_at) == (9, 0, 60, 60)
    assert (decision.verbatim, decision.amended, decision.dropped) == ((50,), (), (60,))


def test_by_results_when_the_source_is_ahead_then_the_targets_straddling_result_is_amended() -> None:
    synchroniser = ByResults(3)
    assert taken(synchroniser, "S(0,13] T(0,10]") == "S(0,13] -T(0,10]"
    undecided = synchroniser.synchronised
    assert undecided is not None
    assert (undecided.cut, undecided.offset, undecided.settled_at) == (13, 3, None)
    [tail] = log("S(0,13] T(0,10] T(10,15]")[2:]
    [amend] = synchroniser.take(tail)
    assert amend == AmendResult(tail, 13, 15)
    settled = synchroniser.synchronised
    assert settled is not None
    assert (settled.verbatim, settled.amended, settled.settled_at) == ((10,), (amend,), 30)


def test_by_results_when_the_target_is_ahead_then_the_sources_last_result_is_amended() -> None:
    synchroniser = ByResults(3)
    actions = taken(synchroniser, "S(0,1] T(0,6] S(1,10] T(6,14] S(10,11] T(14,15] T(15,17]")
    assert actions == "S(0,1] -T(0,6] S(1,10] -T(6,14] S(10,14]* T(14,15] T(15,17]"
    decision = synchroniser.synchronised
    assert decision is not None
    assert (decision.cut, decision.offset, decision.decided_at, decision.settled_at) == (14, -3, 50, 50)


def test_by_results_when_the_offset_swallows_results_then_they_are_dropped_and_the_next_amended() -> None:
    actions = taken(ByResults(3), "S(0,9] T(0,6] T(6,7] T(7,9] T(9,12]")
    assert actions == "S(0,9] -T(0,6] -T(6,7] -T(7,9] T(9,12]"


# --- the cut by serial number -------------------------------------------------------------------------


def test_cut_when_the_target_has_no_result_then_the_sources_pass_and_nothing_is_decided() -> None:
    synchroniser = Cut()
    assert taken(synchroniser, "S(0,5] S(5,9]") == "S(0,5] S(5,9]"
    assert synchroniser.synchronised is None


def test_cut_when_the_target_is_behind_then_the_output_does_not_wait_for_it() -> None:
    synchroniser = Cut()
    actions = taken(synchroniser, "S(0,5] S(5,9] T(2,4] S(9,12] T(4,8] T(8,14] T(14,15]")
    assert actions == "S(0,5] S(5,9] -T(2,4] S(9,12] -T(4,8] T(12,14]* T(14,15]"
    decision = synchroniser.synchronised
    assert decision is not None
    assert (decision.cut, decision.offset, decision.decided_at, decision.settled_at) == (12, -2, 60, 60)


def test_cut_when_it_is_known_where_the_source_was_then_no_result_of_the_source_is_waited_for() -> None:
    synchroniser = Cut(begun=9)
    assert taken(synchroniser, "T(7,12] T(12,15] S(9,20]") == "T(9,12]* T(12,15] -S(9,20]"
    assert synchroniser.synchronised is not None
    assert synchroniser.synchronised.cut == 9


def test_cut_when_a_target_result_ends_at_the_cut_then_all_later_ones_pass_verbatim() -> None:
    synchroniser = Cut()
    assert taken(synchroniser, "S(0,9] T(2,9] T(9,11] S(9,12]") == "S(0,9] -T(2,9] T(9,11] -S(9,12]"
    decision = synchroniser.synchronised
    assert decision is not None
    assert (decision.offset, decision.settled_at) == (0, 20)


def test_cut_when_the_target_straddles_the_cut_then_that_result_is_amended_at_once() -> None:
    synchroniser = Cut()
    assert taken(synchroniser, "T(2,4] T(4,8] T(8,11] S(0,6] T(11,13]") == (
        "S(0,6] -T(2,4] T(6,8]* T(8,11] T(11,13]"
    )
    decision = synchroniser.synchronised
    assert decision is not None
    assert (decision.cut, decision.offset, decision.decided_at, decision.settled_at) == (6, -5, 40, 40)
    assert (decision.verbatim, decision.dropped) == ((40, 30), (10,))
    assert [(a.event.position, a.after, a.through) for a in decision.amended] == [(20, 6, 8)]


def test_cut_when_the_target_began_after_the_cut_then_its_first_result_is_amended_to_close_the_gap() -> None:
    assert taken(Cut(), "S(0,5] T(8,10] T(10,12]") == "S(0,5] T(5,10]* T(10,12]"


def test_cut_when_the_offset_exceeds_the_factor_then_it_waits_until_one_comes_near() -> None:
    synchroniser = Cut(2)
    actions = taken(synchroniser, "S(0,9] T(2,4] S(9,12] T(4,9] S(12,13] T(9,12] T(12,15]")
    assert actions == "S(0,9] -T(2,4] S(9,12] -T(4,9] S(12,13] -T(9,12] T(13,15]*"


def test_cut_when_the_target_is_ahead_by_the_factor_then_it_is_decided() -> None:
    synchroniser = Cut(2)
    taken(synchroniser, "S(0,3] T(0,5]")
    assert synchroniser.synchronised is not None


def test_cut_when_the_target_is_farther_ahead_than_the_factor_then_its_results_are_held_for_later() -> None:
    synchroniser = Cut(2)
    actions = taken(synchroniser, "S(0,3] T(0,6] T(6,8] T(8,9] S(3,8] T(9,14]")
    assert actions == "S(0,3] S(3,8] -T(0,6] -T(6,8] T(8,9] T(9,14]"


# --- both alike ---------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("kind", [ByResults, Cut], ids=["by results", "cut"])


@BOTH
def test_abandon_when_undecided_then_the_source_stays_the_owner(kind: Kind) -> None:
    synchroniser = kind(0)
    events = log("S(0,5] T(0,8] S(5,9] T(8,9] S(9,12]")
    passed = [a for e in events[:2] for a in synchroniser.take(e)]
    passed += [*synchroniser.abandon(), *(a for e in events[2:] for a in synchroniser.take(e))]
    assert [a.event.position for a in passed if isinstance(a, ForwardResult)] == [10, 30, 50]
    assert synchroniser.synchronised is None
    assert synchroniser.abandon() == []


def test_abandon_when_the_source_result_is_held_then_it_is_given_out() -> None:
    synchroniser = ByResults(0)
    assert taken(synchroniser, "S(0,5]") == ""
    assert [written(action) for action in synchroniser.abandon()] == ["S(0,5]"]


@BOTH
def test_abandon_when_the_output_changed_hands_then_it_is_refused(kind: Kind) -> None:
    synchroniser = kind(0)
    taken(synchroniser, "S(0,5] T(0,5]")
    with pytest.raises(TowpathError, match="serial 5") as refused:
        synchroniser.abandon()
    assert refused.value.detail.code is ErrorCode.NOT_ALLOWED


@BOTH
def test_take_when_a_result_is_delivered_again_then_nothing_happens(kind: Kind) -> None:
    synchroniser = kind(0)
    taken(synchroniser, "S(0,5] T(0,5] T(5,9]")
    assert taken(synchroniser, "S(0,5] T(0,5] T(5,9]") == ""


@pytest.mark.parametrize("text", ["S(0,5] S(6,9]", "S(0,5] S(4,9]", "S(0,5] T(1,5] T(6,7]"])
@BOTH
def test_take_when_a_result_before_is_missing_then_the_error_names_where_it_should_begin(
    kind: Kind, text: str
) -> None:
    with pytest.raises(TowpathError, match="does not continue") as refused:
        taken(kind(0), text)
    assert (refused.value.detail.field, refused.value.detail.allowed) == ("after", "5")


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: ResultEvent(Role.SOURCE, 0, 1), "serial"),
        (lambda: ResultEvent(Role.SOURCE, 1, 0), "value"),
        (lambda: LoggedResult(Role.SOURCE, -1, 1, 1, "a"), "after"),
        (lambda: LoggedResult(Role.SOURCE, 4, 4, 1, "a"), "through"),
        (lambda: LoggedResult(Role.SOURCE, 4, 5, -1, "a"), "position"),
        (lambda: Consistency(-1), "factor"),
        (lambda: ByResults(-1), "factor"),
        (lambda: Cut(-1), "factor"),
    ],
)  # fmt: skip
def test_bad_numbers_when_given_then_the_error_names_the_field(
    make: Callable[[], object], field: str
) -> None:
    with pytest.raises(TowpathError) as refused:
        make()
    assert refused.value.detail.field == field
