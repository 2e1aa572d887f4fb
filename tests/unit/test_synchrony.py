"""The thesis's worked examples to the digit, and the counter-examples to its listings."""

from __future__ import annotations

import re

import pytest

from towpath.contracts.migration import Role
from towpath.synchrony.consistency import Consistency, check, release
from towpath.synchrony.result import ResultEvent

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
    """Return the results that the check forwards, as the thesis writes them."""
    state, out = Consistency(factor), []
    for event in results(text):
        state, outputs = check(state, event)
        out += [f"{o.result.origin.name[0]}[{o.result.serial},{o.result.value}]" for o in outputs]
    return " ".join(out)


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


def test_check_when_serials_are_not_all_the_jobs_own_then_subtracting_them_miscounts() -> None:
    # The job's own events are 1, 3, 5, 7 and 9. The source counted the first three; of the target's second
    # window 7 and 9 are left to count: two, not one. `Cut` names the serials instead, 5 < serial <= 9.
    assert forwarded("S[5,3] T[3,2] T[9,3]", factor=3) == "S[5,3] T[9,1]"
