"""Queries that are content with estimates: their plan, the events that are read, and what answers say."""

from __future__ import annotations

import pytest

from towpath.contracts.operators import Chain, Precision, Window
from towpath.queries.checking import check
from towpath.queries.compilation import Asked, compiled
from towpath.queries.evaluation.estimates import bounds, estimate, interval
from towpath.queries.evaluation.group import Group
from towpath.queries.evaluation.history import Pane
from towpath.queries.evaluation.totals import Totals, Weighted
from towpath.queries.parsing import parse
from towpath.queries.planning import shared_plan
from towpath.queries.sample_sizes import ClosedWindow, SampleSizes
from towpath.streams.reading import Reading
from towpath.streams.thinning import ALL, Thinner, ThinningOption, factor_behind

STREAM = 's = STREAM FROM topic(topic="site/a", value="v", fields="k:string")\n'
PROMISE = "WITH MAX_ERROR 0.1 AND CONFIDENCE 0.9"


def test_plan_when_all_queries_promise_an_error_then_shares_follow_from_their_windows() -> None:
    text = f"{STREAM}q = COMPUTE SUM(s, 60 s) / COUNT(s, 60 s) EVERY 20 s BY k {PROMISE}"
    panes, _ = compiled(Asked("q", "jfk", text, {}, ["jfk"])).pipeline.jobs
    assert isinstance(panes.operator, Chain)
    window = panes.operator.steps[-1]
    assert isinstance(window, Window)

    assert panes.inputs[0].thinning is not None
    assert panes.inputs[0].thinning.strata == {"k": window.key[0]}
    # Two functions share the error, and the probability of missing it.
    found = [(one.of, one.max_error, round(one.confidence, 9), one.windows) for one in window.precision]
    assert found == [("sum", 0.05, 0.95, 3), ("count", 0.05, 0.95, 3)]


@pytest.mark.parametrize(
    ("options", "thinned", "salience"),
    [
        ([PROMISE, ""], False, None),
        ([PROMISE, "WITH SALIENCE 5"], True, None),
        (["WITH SALIENCE 20", "WITH SALIENCE 5"], True, 20),
        ([f"{PROMISE} AND SALIENCE 3", "WITH SALIENCE 5"], True, 5),
    ],
)
def test_input_when_a_query_needs_all_events_then_is_not_thinned(
    options: list[str], thinned: bool, salience: int | None
) -> None:
    queries = [f"q{n} = COMPUTE AVG(s, 1 m) EVERY 1 m {option}" for n, option in enumerate(options)]
    panes, _ = compiled(Asked("q", "jfk", STREAM + "\n".join(queries), {}, ["jfk"])).pipeline.jobs
    found = panes.inputs[0].thinning

    assert (found is not None) == thinned
    assert found is None or found.salience == salience


def test_query_when_estimated_without_every_then_answers_every_second() -> None:
    (query,) = check(parse(f"{STREAM}q = COMPUTE AVG(s, 10 m) {PROMISE}")).queries
    assert query.every is not None
    assert query.every.micros == 1_000_000  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("salience", "behind_s", "factor"),
    [
        (None, 1e6, 1),
        (0, 4.9, 1),
        (0, 5, 1 / 2),
        (0, 12, 1 / 4),
        (0, 1e6, 1 / 16),
        (100, 54, 1),
        (100, 60, 1 / 2),
    ],
)
def test_factor_when_a_job_is_behind_then_falls_sooner_for_a_lower_salience(
    salience: int | None, behind_s: float, factor: float
) -> None:
    assert factor_behind(salience, behind_s) == factor


def test_thinner_when_strata_have_shares_then_reads_so_many_and_all_of_a_new_one() -> None:
    thinner = Thinner(ThinningOption(("k",), None), Reading({"k": "string", "v": "double"}, from_device=True))
    events = [b'{"k": "%s", "v": 1}' % (b"old" if n % 2 else b"new") for n in range(10_000)]

    found = thinner.shares(range(1, 10_001), events, {"=old": 0.25})

    assert found.count(1.0) == 5_000
    assert found.count(0.25) == pytest.approx(1_250, rel=0.1)
    halved = thinner.shares(range(1, 10_001), events, {"=old": 0.25, ALL: 0.5})
    assert {share for share in halved if share} == {0.5, 0.125}
    # A smaller sample is a part of the larger one, so a job that is read again finds what it had.
    assert all(share for share, other in zip(found, halved, strict=True) if other)


def test_estimate_when_all_events_were_read_then_is_exact_and_not_in_doubt() -> None:
    totals = Totals(count=4, weighted=Weighted(4, 10, 30, 0, 0, 0))

    assert [estimate(name, totals) for name in ("COUNT", "SUM", "AVG")] == [4, 10, 2.5]
    assert interval("AVG", totals, 0.95) == (2.5, 2.5)


def test_interval_when_half_of_the_events_were_read_then_is_that_of_the_text_book() -> None:
    # 100 events with weight 2, of which half have the value 1, and half 3.
    sums = [2.0**1 * 100, 2 * (50 * 1 + 50 * 3), 2 * (50 + 50 * 9), 2 * 100, 2 * 200, 2 * 500]
    low, high = interval("AVG", Totals(count=100, weighted=Weighted(*sums)), 0.95) or (0, 0)

    # √((1 - p) / n · s²) = √(0.5 / 100 · 1), times Student's 1.984.
    assert (high + low) / 2 == pytest.approx(2)
    assert (high - low) / 2 == pytest.approx(1.984 * (0.5 / 100) ** 0.5, rel=1e-3)


@pytest.mark.parametrize(("option", "confidence"), [(PROMISE, 0.9), ("WITH SALIENCE 1", 0.95)])
def test_answer_when_estimated_then_says_its_interval_with_its_confidence(
    option: str, confidence: float
) -> None:
    text = f"{STREAM}q = COMPUTE SUM(s, 1 m) / COUNT(s, 1 m) EVERY 1 m {option}"
    asked = check(parse(text))
    plan = shared_plan(asked, dict.fromkeys(asked.sources, (0,)), ["jfk"])
    totals = Totals(count=100, weighted=Weighted(200, 400, 1000, 200, 400, 1000))
    group = Group(plan.program)
    group.take([Pane(60_000_000, {}, (1, 0), {kept.argument: totals for kept in plan.kept}, {})])

    (answer,) = group.answers(60_000_000)

    assert answer.value == 2
    assert answer.about["low"] < 2 < answer.about["high"]
    assert (answer.about["confidence"], answer.about["sampled"]) == (confidence, 0.5)


def test_bounds_when_a_divisor_may_be_zero_then_are_none() -> None:
    (query,) = check(parse(f"{STREAM}q = COMPUTE 6 / SUM(s, 1 m) EVERY 1 m WITH SALIENCE 1")).queries

    assert bounds(query.expression, lambda use: (2, 3)) == (2, 3)
    assert bounds(query.expression, lambda use: (-1, 3)) is None


def test_shares_when_a_key_is_new_or_gone_then_it_has_none() -> None:
    precision = Precision(
        of="mean", weight="w", sum="s", squares="q", max_error=0.1, confidence=0.9, windows=10, key=["k"]
    )
    sizes = SampleSizes([precision], ["k"])

    def windows(key: str, ends: range) -> None:
        # Mean 10, deviation 5.
        values: dict[str, float | None] = {"w": 10_000, "s": 100_000, "q": 1_250_000}
        sizes.take_in(ClosedWindow(end, {"k": key}, values) for end in ends)

    windows("=a", range(3))
    windows("=b", range(3, 4))
    assert [*sizes.shares()] == ["=a"]
    windows("=b", range(4, 20))
    assert [*sizes.shares()] == ["=b"]
    assert sizes.shares()["=b"] < 0.05


def test_shares_when_a_mean_and_a_number_of_the_same_values_are_asked_then_both_suffice() -> None:
    both = [
        Precision(of="mean", weight="w", sum="s", squares="q", max_error=0.1, confidence=0.9, windows=10),
        Precision(of="count", weight="w", max_error=0.1, confidence=0.9, windows=10),
    ]
    found = []
    for precision in (both, both[:1], both[1:]):
        sizes = SampleSizes(precision, [])
        sizes.take_in(ClosedWindow(end, {}, {"w": 10_000, "s": 100_000, "q": 1_250_000}) for end in range(3))
        found.append(sizes.shares()[""])

    assert found[0] == max(found[1:]) < 0.1
