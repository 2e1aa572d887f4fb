"""For any cut of an input into processing-time windows: a right cut is clean, and every fault is found."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from towpath.checker.identity import identity_of
from towpath.checker.observation import ReceivedMessage, observe
from towpath.checker.ranges import Range, judge_ranges
from towpath.checker.verdict import Verdict
from towpath.contracts.operators import Aggregate

LAST = 60
TOTAL = {"total": Aggregate.model_validate({"function": "sum", "field": "v"})}

cuts = st.sets(st.integers(1, LAST - 1), max_size=8).map(
    lambda ends: list(pairwise([0, *sorted(ends), LAST]))
)
inputs = st.sets(st.integers(1, LAST), min_size=1)
"""Serial numbers of the accepted events. The others are rejected, or belong to another topic."""


def windows(accepted: set[int], cut: list[Range]) -> list[dict[str, Any]]:
    """Return the results of a job that cuts its input at these places."""
    bodies: list[dict[str, Any]] = []
    for after, through in cut:
        for key in range(3):
            held = [n for n in accepted if after < n <= through and n % 3 == key]
            if held:
                bodies.append(body(after, through, key, held))
    return bodies


def body(after: int, through: int, key: int, held: list[int]) -> dict[str, Any]:
    return {
        "job": "counts",
        "site": "jfk",
        "epoch": 1,
        "serial": max(held),
        "stored_at": "2026-01-01T00:00:00.000Z",
        "after": after,
        "through": through,
        "key": {"k": key},
        "count": len(held),
        "values": {"total": sum(held)},
    }


def seen(result: dict[str, Any]) -> ReceivedMessage:
    return observe(json.dumps(result).encode(), identity_of, 0.0)


def verdict_on(accepted: set[int], results: list[dict[str, Any]]) -> Verdict:
    rows = [{"serial": n, "k": n % 3, "v": n} for n in accepted]
    return judge_ranges(
        pd.DataFrame(rows),
        [seen(result) for result in results],
        job="counts",
        key=["k"],
        aggregates=TOTAL,
        after=0,
        through=LAST,
    )


@given(inputs, cuts)
def test_verdict_when_any_cut_is_published_whole_then_is_clean(accepted: set[int], cut: list[Range]) -> None:
    verdict = verdict_on(accepted, windows(accepted, cut))
    assert verdict.clean, verdict
    assert verdict.expected == verdict.results == len(windows(accepted, cut))


@given(inputs, cuts, st.data())
def test_verdict_when_any_result_is_left_out_then_something_is_lost(
    accepted: set[int], cut: list[Range], data: st.DataObject
) -> None:
    results = windows(accepted, cut)
    results.pop(data.draw(st.integers(0, len(results) - 1)))
    assert verdict_on(accepted, results).lost >= 1


@given(inputs, cuts, st.data())
def test_verdict_when_any_result_is_repeated_then_one_is_duplicated(
    accepted: set[int], cut: list[Range], data: st.DataObject
) -> None:
    results = windows(accepted, cut)
    verdict = verdict_on(accepted, [*results, data.draw(st.sampled_from(results))])
    assert (verdict.duplicated, verdict.lost, verdict.wrong) == (1, 0, 0)


@given(inputs, cuts, st.tuples(st.integers(0, LAST), st.integers(0, LAST)).filter(lambda r: r[0] < r[1]))
def test_verdict_when_one_more_window_with_events_overlaps_then_something_is_duplicated_and_nothing_lost(
    accepted: set[int], cut: list[Range], more: Range
) -> None:
    extra = windows(accepted, [more])
    verdict = verdict_on(accepted, [*windows(accepted, cut), *extra])
    assert (verdict.lost, verdict.wrong, verdict.unexpected) == (0, 0, 0)
    covered = {(r["after"], r["through"]) for r in windows(accepted, cut)}
    overlaps = any(more[0] < end and begin < more[1] for begin, end in covered)
    assert bool(verdict.duplicated) == (bool(extra) and overlaps)


@given(inputs, cuts, st.data(), st.sampled_from(["count", "serial", "total"]))
def test_verdict_when_any_number_of_a_result_is_altered_then_it_is_wrong(
    accepted: set[int], cut: list[Range], data: st.DataObject, what: str
) -> None:
    results = windows(accepted, cut)
    altered = data.draw(st.sampled_from(results))
    holder = altered["values"] if what == "total" else altered
    holder[what] += 1
    verdict = verdict_on(accepted, results)
    assert (verdict.wrong, verdict.lost, verdict.duplicated) == (1, 0, 0)
