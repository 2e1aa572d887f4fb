"""The queries' demonstration: its judgement of answers and estimates, and its figures of links and gaps."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from running.published_answers import published
from towpath.checker.observation import ReceivedMessage
from towpath.contracts.errors import TowpathError
from towpath.lab.demonstration.queries.estimates import judge_estimates
from towpath.lab.demonstration.queries.findings import Heard, gap_of, parts_of_plan, sampled_of
from towpath.lab.demonstration.queries.rainbow import FIGURES, FILLED, generated
from towpath.lab.demonstration.queries.report import Crossing
from towpath.lab.demonstration.queries.run import QueriesOptions
from towpath.lab.demonstration.queries.stretch import stretch
from towpath.lab.demonstration.queries.texts import ESTIMATED, RAINBOW, SHARED, query_text
from towpath.lab.demonstration.queries.truth import AskedEvents, answers_of
from towpath.lab.harness.answers import judge_answers, micros
from towpath.lab.harness.report import MoveReport
from towpath.queries.checking import check
from towpath.queries.compilation import Asked, compiled
from towpath.queries.parsing import parse
from towpath.queries.reference import Answer, Event

BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
DELAYS = [1, 5, 9, 240, 7, 3]
EVENTS = [
    Event(
        "ewr" if number % 2 else "jfk",
        "site/departures",
        number + 1,
        0,
        {
            "departed_at": (BEGIN + timedelta(hours=number)).isoformat(),
            "delay": delay,
            "carrier": "AA",
            "distance": 100 + number,
        },
    )
    for number, delay in enumerate(DELAYS)
]
ASKED = AskedEvents(query_text(SHARED), {}, EVENTS, BEGIN + timedelta(days=9))

Fault = Callable[[list[ReceivedMessage]], list[ReceivedMessage]]


def another_value(answer: Answer) -> Answer:
    return Answer(answer.query, answer.moment, answer.key, 0.5)


@pytest.mark.parametrize("query", ["by_carrier", "by_site", "busiest", "outliers", "mean_plus_100"])
def test_answers_when_each_came_once_and_right_then_nothing_is_found(query: str) -> None:
    expected = answers_of(ASKED, query)

    verdict = judge_answers(expected, [published(answer) for answer in expected])

    assert verdict.expected == verdict.results == len(expected) > 0
    assert verdict.found() == {}


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (lambda seen: seen[1:], {"lost": 1}),
        (lambda seen: [*seen, seen[0]], {"duplicated": 1}),
        (
            lambda seen: [published(another_value(answers_of(ASKED, "mean")[0])), *seen[1:]],
            {"wrong": 1},
        ),
        (
            lambda seen: [*seen, published(Answer("mean", micros(BEGIN), (), 1.0))],
            {"unexpected": 1},
        ),
    ],
)
def test_answers_when_one_is_missing_or_twice_or_wrong_then_it_is_found(
    fault: Fault, found: dict[str, int]
) -> None:
    expected = answers_of(ASKED, "mean")

    verdict = judge_answers(expected, fault([published(answer) for answer in expected]))

    assert verdict.found() == found
    assert all(verdict.examples[kind] for kind in found)


def test_answers_when_two_are_of_one_moment_then_both_must_come() -> None:
    twins = [Answer("q", micros(BEGIN) + 7, (), value) for value in (1.0, 2.0)]

    both = judge_answers(twins, [published(twin) for twin in twins])
    one = judge_answers(twins, [published(twins[0])])

    assert both.found() == {}
    assert one.found() == {"lost": 1}


def test_estimates_when_one_of_four_is_off_then_the_promise_is_not_kept() -> None:
    [miles, _] = check(parse(query_text(ESTIMATED))).queries
    truth = [Answer("miles", micros(BEGIN) + n * 10**6, (("site", "jfk"),), 100.0) for n in range(4)]
    told = [(100.0, 99.0, 101.0), (104.0, 95.0, 110.0), (98.0, 97.0, 99.0), (106.0, 101.0, 111.0)]
    seen = [
        published(Answer(true.query, true.moment, true.key, value), low=low, high=high, sampled=0.25)
        for true, (value, low, high) in zip(truth, told, strict=True)
    ]

    report = judge_estimates(miles, truth, seen)

    assert (report.within, report.covered, report.sampled) == (0.75, 0.5, 0.25)
    assert report.judgement.exact, "all came once, and values may be off"
    assert not report.kept


def test_crossing_when_events_are_of_all_airports_then_bytes_are_for_each() -> None:
    crossing = Crossing(
        what="raw events",
        events=100,
        seconds=10.0,
        link_bytes={"jfk": 3_000, "cloud": 9_000},
    )
    idle = Crossing(what="nothing", events=0, seconds=5.0, link_bytes={"jfk": 500, "cloud": 100})

    assert crossing.per_event(["jfk"]) == 30.0
    assert crossing.beyond(idle, ["jfk"]) == 20.0


def test_gap_when_answers_are_rare_around_a_move_then_is_longer_than_before() -> None:
    move = MoveReport(job="airports", strategy="handover", begun_at=10.0, ended_at=12.0)

    gap = gap_of([7.0, 8.0, 9.5, 12.5, 13.0, 15.5, 30.0], move)

    assert gap is not None
    assert (gap.before_s, gap.around_s) == (1.5, 14.5)


def test_plan_when_shown_then_a_number_serves_several_queries() -> None:
    found = compiled(Asked(SHARED, "cloud", query_text(SHARED), {}, ["ewr", "jfk", "lga", "cloud"]))

    [ewr, *_] = parts_of_plan(found)
    sampled = sampled_of(Heard(found, ASKED, []))

    [served] = [each.serves for each in ewr.kept if each.part == "sum" and each.of.startswith("delay")]
    assert {"by_carrier", "by_site", "unusual", "mean", "mean_plus_100"} == {*served}
    assert (sampled.query, sampled.events) == ("miles", len(EVENTS))
    assert sampled.read < len(EVENTS)


def test_figures_when_compiled_then_are_all_that_was_printed_and_the_generator_has_their_metrics() -> None:
    meaning = check(parse(query_text(RAINBOW)), FILLED)

    made = [json.loads(event.payload) for event in generated()]

    assert {query.name for query in meaning.queries} == FIGURES.keys()
    asked = {"temperature", "robot_joints_moves", "robot_publish_rate", "walker_deliver_rate", "gpu_memory"}
    assert asked <= {name for each in made for name in each}
    assert made == [json.loads(event.payload) for event in generated()]


def test_stretch_when_of_a_few_days_then_airports_are_in_step_and_departures_come_late() -> None:
    found = stretch(50, 40)

    assert {*found.events} == {"ewr", "jfk", "lga"}
    assert found.count == 6_000
    assert all(0 <= event.at <= 40 for events in found.events.values() for event in events)
    first, rest = found.parts(10.0)
    assert sum(map(len, [*first.values(), *rest.values()])) == found.count
    times = [json.loads(event.payload)["departed_at"] for event in found.events["jfk"]]
    departed = [time for time in times if time is not None]
    assert departed != sorted(departed)


def test_options_when_windows_of_a_day_would_stay_empty_then_are_refused() -> None:
    with pytest.raises(TowpathError, match="too few departures"):
        QueriesOptions(rate=10, seconds=10)
