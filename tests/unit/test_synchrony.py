"""The thesis's worked examples to the digit, the counter-examples to its listings, and the cut by serial."""

from __future__ import annotations

import re

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.migration import Role
from towpath.synchrony.by_results import ByResults
from towpath.synchrony.consistency import Consistency, check, release
from towpath.synchrony.cut import Cut
from towpath.synchrony.decision import Action, Amend, Forward, Relation
from towpath.synchrony.logged import LoggedResult
from towpath.synchrony.result import ResultEvent
from towpath.synchrony.synchroniser import Synchroniser

ROLES = {"S": Role.SOURCE, "T": Role.TARGET}


def results(text: str) -> list[ResultEvent]:
    """`S[3,3] T[2,2]` as the thesis writes it: origin[serial, value]."""
    found = re.findall(r"([ST])\[(\d+),(\d+)\]", text)
    return [ResultEvent(ROLES[origin], int(serial), int(value)) for origin, serial, value in found]


def after(text: str, factor: int) -> Consistency:
    state = Consistency(factor)
    for event in results(text):
        state, _ = check(state, event)
    return state


def forwarded(text: str, factor: int) -> str:
    """What the check forwards, as the thesis writes it."""
    state, out = Consistency(factor), []
    for event in results(text):
        state, outputs = check(state, event)
        out += [f"{o.result.origin.name[0]}[{o.result.serial},{o.result.value}]" for o in outputs]
    return " ".join(out)


def log(text: str) -> list[LoggedResult]:
    """`S(0,5]` as origin(after, through], at positions 10, 20, 30 …."""
    found = re.findall(r"([ST])\((\d+),(\d+)\]", text)
    return [
        LoggedResult(ROLES[origin], int(start), int(end), 10 * place, f"id-{place}")
        for place, (origin, start, end) in enumerate(found, start=1)
    ]


def written(action: Action) -> str:
    origin = action.event.origin.name[0]
    if isinstance(action, Amend):
        return f"{origin}({action.after},{action.through}]*"
    sign = "" if isinstance(action, Forward) else "-"
    return f"{sign}{origin}({action.event.after},{action.event.through}]"


def taken(synchroniser: Synchroniser, text: str) -> str:
    """The actions in order: `*` amended, `-` dropped."""
    return " ".join(written(action) for event in log(text) for action in synchroniser.take(event))


# --- the thesis's worked examples ---------------------------------------------------------------------

STRONG = ("S[3,3] T[2,2] S[7,4] T[5,3] S[9,2] T[9,4]", "T[12,3] T[17,5] T[20,3]")
SOURCE_AHEAD = ("S[5,5] T[1,1] S[9,4] T[5,4] S[13,4] T[10,5]", "T[15,5] T[20,5]")
TARGET_AHEAD = ("S[1,1] T[6,6] S[10,9] T[14,8] S[11,1] T[15,1]", "T[17,2] T[19,2] T[20,1]")


def test_check_when_both_counted_the_same_then_nothing_is_altered() -> None:
    assert forwarded(" ".join(STRONG), factor=0) == "S[3,3] S[7,4] S[9,2] T[12,3] T[17,5] T[20,3]"


def test_check_when_the_source_is_ahead_then_the_targets_next_result_loses_the_offset() -> None:
    assert forwarded(" ".join(SOURCE_AHEAD), factor=3) == "S[5,5] S[9,4] S[13,4] T[15,2] T[20,5]"


def test_check_when_the_target_is_ahead_then_the_sources_last_result_gains_the_offset() -> None:
    expected = "S[1,1] S[10,9] S[14,4] T[15,1] T[17,2] T[19,2] T[20,1]"
    assert forwarded(" ".join(TARGET_AHEAD), factor=3) == expected


@pytest.mark.parametrize(
    ("before", "deciding", "factor", "offset"),
    [
        ("S[3,3] T[2,2] S[7,4] T[5,3] S[9,2]", "T[9,4]", 0, 0),
        ("S[5,5] T[1,1] S[9,4] T[5,4] S[13,4]", "T[10,5]", 3, 3),
        ("S[1,1] T[6,6] S[10,9] T[14,8]", "S[11,1]", 3, -3),
    ],
    ids=["strong", "source ahead", "target ahead"],
)
def test_check_when_the_offset_is_within_the_factor_then_it_tells_so_with_that_result_and_not_before(
    before: str, deciding: str, factor: int, offset: int
) -> None:
    undecided = after(before, factor)
    assert undecided.agreement is None
    decided, _ = check(undecided, results(deciding)[0])
    assert decided.agreement is not None
    assert decided.agreement.offset == offset


# --- where the algorithms had to depart from the listings --------------------------------------------


def test_synchronise_when_the_target_is_farther_ahead_than_the_factor_then_it_waits() -> None:
    assert forwarded("S[1,1] T[6,6] S[6,5] T[8,2]", factor=0) == "S[1,1] S[6,5] T[8,2]"


def test_source_ahead_when_the_offset_exceeds_the_targets_next_result_then_the_rest_is_carried_on() -> None:
    assert forwarded("S[9,9] T[6,6] T[7,1] T[8,1] T[12,4]", factor=3) == "S[9,9] T[12,3]"


def test_source_ahead_when_a_target_result_ends_where_the_source_did_then_it_is_swallowed_whole() -> None:
    assert forwarded("S[9,9] T[6,6] T[9,3] T[12,3]", factor=3) == "S[9,9] T[12,3]"


def test_release_when_the_migration_is_called_off_then_the_sources_held_result_is_given_out() -> None:
    state = after("S[3,3] T[1,1] S[5,2]", factor=0)
    state, outputs = release(state)
    assert [output.result for output in outputs] == results("S[5,2]")
    assert release(state)[1] == ()


def test_release_when_a_target_result_is_held_then_nothing_is_given_out() -> None:
    assert release(after("S[3,3] T[1,1]", factor=0))[1] == ()


def test_check_when_source_results_arrive_after_the_agreement_then_they_are_void() -> None:
    assert forwarded("S[4,4] T[4,4] S[6,2] T[7,3] S[9,3] T[9,2]", factor=0) == "S[4,4] T[7,3] T[9,2]"


def test_check_when_equal_serials_are_not_neighbours_then_it_waits_for_a_later_chance() -> None:
    assert forwarded("S[3,3] T[2,2] T[3,1] S[4,1] T[4,1] T[6,2]", factor=0) == "S[3,3] S[4,1] T[6,2]"


def test_check_when_the_stream_is_shared_then_it_miscounts_and_the_cut_names_the_serials() -> None:
    # The job's own events are 1, 3, 5, 7 and 9; the others belong to somebody else. The source counted
    # 1, 3, 5; of the target's second window, (3, 9], the events 7 and 9 are left to count: two, not one.
    assert forwarded("S[5,3] T[3,2] T[9,3]", factor=3) == "S[5,3] T[9,1]"
    assert taken(Cut(), "S(0,5] T(0,3] T(3,9]") == "S(0,5] -T(0,3] T(5,9]*"


# --- the thesis's decision over the log ---------------------------------------------------------------


def test_by_results_when_both_counted_the_same_then_nothing_is_amended() -> None:
    synchroniser = ByResults(0)
    actions = taken(synchroniser, "S(0,3] T(0,2] S(3,7] T(2,5] S(7,9] T(5,9] T(9,12] S(9,14] T(12,17]")
    assert actions == "S(0,3] -T(0,2] S(3,7] -T(2,5] S(7,9] -T(5,9] T(9,12] -S(9,14] T(12,17]"
    decision = synchroniser.synchronised
    assert decision is not None
    assert decision.relation is Relation.STRONG
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
    assert amend == Amend(tail, 13, 15)
    settled = synchroniser.synchronised
    assert settled is not None
    assert settled.relation is Relation.SOURCE_AHEAD
    assert (settled.verbatim, settled.amended, settled.settled_at) == ((10,), (amend,), 30)


def test_by_results_when_the_target_is_ahead_then_the_sources_last_result_is_amended() -> None:
    synchroniser = ByResults(3)
    actions = taken(synchroniser, "S(0,1] T(0,6] S(1,10] T(6,14] S(10,11] T(14,15] T(15,17]")
    assert actions == "S(0,1] -T(0,6] S(1,10] -T(6,14] S(10,14]* T(14,15] T(15,17]"
    decision = synchroniser.synchronised
    assert decision is not None
    assert decision.relation is Relation.TARGET_AHEAD
    assert (decision.cut, decision.offset, decision.decided_at, decision.settled_at) == (14, -3, 50, 50)


def test_by_results_when_the_offset_swallows_results_then_they_are_dropped_and_the_next_amended() -> None:
    actions = taken(ByResults(3), "S(0,9] T(0,6] T(6,7] T(7,9] T(9,12]")
    assert actions == "S(0,9] -T(0,6] -T(6,7] -T(7,9] T(9,12]"


# --- the cut by serial number -------------------------------------------------------------------------


def test_cut_when_the_target_has_no_result_then_the_sources_pass_and_nothing_is_decided() -> None:
    synchroniser = Cut()
    assert taken(synchroniser, "S(0,5] S(5,9]") == "S(0,5] S(5,9]"
    assert synchroniser.synchronised is None


def test_cut_when_the_target_is_behind_then_its_first_result_beyond_is_amended_when_it_comes() -> None:
    synchroniser = Cut()
    actions = taken(synchroniser, "S(0,5] S(5,9] T(2,4] S(9,12] T(4,8] T(8,11] T(11,15]")
    assert actions == "S(0,5] S(5,9] -T(2,4] -S(9,12] -T(4,8] T(9,11]* T(11,15]"
    decision = synchroniser.synchronised
    assert decision is not None
    assert (decision.cut, decision.offset, decision.decided_at, decision.settled_at) == (9, 5, 30, 60)


def test_cut_when_a_target_result_ends_at_the_cut_then_all_later_ones_pass_verbatim() -> None:
    synchroniser = Cut()
    assert taken(synchroniser, "S(0,9] T(2,9] T(9,11] S(9,12]") == "S(0,9] -T(2,9] T(9,11] -S(9,12]"
    decision = synchroniser.synchronised
    assert decision is not None
    assert (decision.relation, decision.settled_at) == (Relation.STRONG, 20)


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


def test_cut_when_the_target_is_farther_ahead_than_the_factor_then_its_results_are_held_for_later() -> None:
    synchroniser = Cut(2)
    actions = taken(synchroniser, "S(0,3] T(0,6] T(6,8] T(8,9] S(3,8] T(9,14]")
    assert actions == "S(0,3] S(3,8] -T(0,6] -T(6,8] T(8,9] T(9,14]"


# --- both alike ---------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("synchroniser", [ByResults(0), Cut(0)], ids=["by results", "cut"])


@BOTH
def test_abandon_when_undecided_then_the_source_stays_the_owner(synchroniser: Synchroniser) -> None:
    events = log("S(0,5] T(0,8] S(5,9] T(8,9] S(9,12]")
    passed = [a for e in events[:2] for a in synchroniser.take(e)]
    passed += [*synchroniser.abandon(), *(a for e in events[2:] for a in synchroniser.take(e))]
    assert [a.event.position for a in passed if isinstance(a, Forward)] == [10, 30, 50]
    assert synchroniser.synchronised is None
    assert synchroniser.abandon() == []


def test_abandon_when_the_source_result_is_held_then_it_is_given_out() -> None:
    synchroniser = ByResults(0)
    assert taken(synchroniser, "S(0,5]") == ""
    assert [written(action) for action in synchroniser.abandon()] == ["S(0,5]"]


@pytest.mark.parametrize("synchroniser", [ByResults(0), Cut()], ids=["by results", "cut"])
def test_abandon_when_the_output_changed_hands_then_it_is_refused(synchroniser: Synchroniser) -> None:
    taken(synchroniser, "S(0,5] T(0,5]")
    with pytest.raises(TowpathError, match="serial 5") as refused:
        synchroniser.abandon()
    assert refused.value.detail.code is ErrorCode.NOT_ALLOWED


@pytest.mark.parametrize("synchroniser", [ByResults(0), Cut()], ids=["by results", "cut"])
def test_take_when_a_result_is_delivered_again_then_nothing_happens(synchroniser: Synchroniser) -> None:
    taken(synchroniser, "S(0,5] T(0,5] T(5,9]")
    assert taken(synchroniser, "S(0,5] T(0,5] T(5,9]") == ""


@pytest.mark.parametrize("text", ["S(0,5] S(6,9]", "S(0,5] S(4,9]", "S(0,5] T(1,5] T(6,7]"])
@pytest.mark.parametrize("kind", [lambda: ByResults(0), Cut], ids=["by results", "cut"])
def test_take_when_a_result_before_is_missing_then_the_error_names_where_it_should_begin(
    kind: type[Cut], text: str
) -> None:
    with pytest.raises(TowpathError, match="does not continue") as refused:
        taken(kind(), text)
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
def test_bad_numbers_when_given_then_the_error_names_the_field(make: type[Cut], field: str) -> None:
    with pytest.raises(TowpathError) as refused:
        make()
    assert refused.value.detail.field == field
