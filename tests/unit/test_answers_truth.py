"""The truth about a job that answers queries, also of one that a query has joined."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from running.published_answers import published
from towpath.checker.accepted import StoredEvent
from towpath.checker.observation import ReceivedMessage
from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.operators import Query
from towpath.lab.harness.answers import EPOCH, micros
from towpath.lab.harness.answers_truth import AnswersTruth, can_be_judged, disorder_s, extends
from towpath.lab.harness.events import BEGIN
from towpath.lab.harness.judge import StoredInput, judged, still_judged, truth_of
from towpath.queries.checking import check
from towpath.queries.parsing import parse
from towpath.queries.reference import Answer, Event, answers

STREAM = 'events = STREAM FROM topic(topic="site/x", sites="a,b", time="at", delay="3 SECONDS");'
MEAN = 'mean = COMPUTE AVG("value" FROM (events), 2 SECONDS) BY key EVERY 1 SECONDS;'
MANY = 'many = COMPUTE COUNT("value" FROM (events), 4 SECONDS) BY key WHEN > 3 EVERY 1 SECONDS;'
ONE, BOTH = Query(text=STREAM + MEAN), Query(text=STREAM + MEAN + MANY)


def event(number: int, site: str = "a", late_s: float = 0.0) -> Event:
    at = BEGIN + timedelta(seconds=number / 4 - late_s)
    return Event(
        site, "site/x", number + 1, 0, {"at": at.isoformat(), "key": "k", "value": float(number % 7)}
    )


EVENTS = [event(number, site) for number in range(240) for site in ("a", "b")]
"""A minute at two sites."""


def job(operator: Query) -> JobSpec:
    inputs = [Input(site="a", topic="queries/q/panes")]
    return JobSpec(name="q", site="a", inputs=inputs, output=Output(topic="queries/q"), operator=operator)


def test_answers_when_they_are_computed_in_stretches_then_are_those_of_the_reference() -> None:
    until = micros(BEGIN + timedelta(seconds=55))

    expected = AnswersTruth.of(BOTH, BOTH, EVENTS).expected

    told = answers(check(parse(BOTH.text)), EVENTS, until)
    key = lambda answer: (answer.query, answer.moment)  # noqa: E731
    assert sorted((each for each in expected if each.moment <= until), key=key) == sorted(told, key=key)


def test_answers_when_a_site_is_behind_then_only_those_up_to_its_watermark_are_due() -> None:
    behind = [each for each in EVENTS if each.site == "a" or each.serial <= 120]

    truth = AnswersTruth.of(ONE, ONE, behind)

    assert BEGIN + timedelta(seconds=24) < truth.until < BEGIN + timedelta(seconds=27)
    assert max(each.moment for each in truth.expected) <= micros(truth.until)


def test_truth_when_nothing_has_come_in_then_no_answer_is_due() -> None:
    truth = AnswersTruth.of(ONE, ONE, [])

    assert truth.complete(set())
    assert truth.verdict([]).clean


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (lambda seen: seen, {}),
        (lambda seen: seen[1:], {"lost": 1}),
        (lambda seen: [*seen, seen[0]], {"duplicated": 1}),
        (
            lambda seen: [published(Answer("mean", micros(BEGIN), (("key", "k"),), 9.0)), *seen],
            {"unexpected": 1},
        ),
    ],
)
def test_verdict_when_answers_are_missing_or_too_many_then_counts_them(
    fault: Callable[[list[ReceivedMessage]], list[ReceivedMessage]], found: dict[str, int]
) -> None:
    truth = AnswersTruth.of(BOTH, BOTH, EVENTS)

    verdict = truth.verdict(fault([published(each) for each in truth.expected]))

    assert verdict.found() == found


def test_query_that_joined_when_its_windows_are_whole_then_is_judged_and_the_others_all_the_time() -> None:
    truth = AnswersTruth.of(BOTH, ONE, EVENTS, BEGIN + timedelta(seconds=25))
    joined_at = micros(BEGIN + timedelta(seconds=20))
    whole_at = joined_at + micros(EPOCH + truth.reach)

    def value(each: Answer) -> Answer:
        """While its windows are not whole, it counts less."""
        partial = each.query == "many" and each.moment < whole_at
        return Answer(each.query, each.moment, each.key, 1.0) if partial else each

    seen = [
        published(value(each)) for each in truth.expected if each.query == "mean" or each.moment >= joined_at
    ]

    assert truth.complete({each.identity for each in seen})
    assert truth.verdict(seen).clean
    assert truth.verdict(seen[:-1]).found() == {"lost": 1}
    partial = next(each for each in seen if each.identity.job == "many")
    assert truth.verdict([*seen, partial]).found() == {"duplicated": 1}


@pytest.mark.parametrize("first_s", [40, 100], ids=["late", "never"])
def test_query_that_joined_when_it_answers_late_or_never_then_what_it_owed_is_lost(first_s: int) -> None:
    joined_by = BEGIN + timedelta(seconds=25)
    truth = AnswersTruth.of(BOTH, ONE, EVENTS, joined_by)
    since, first = micros(joined_by + truth.reach), micros(BEGIN + timedelta(seconds=first_s))
    seen = [published(each) for each in truth.expected if each.query == "mean" or each.moment >= first]

    owed = [each for each in truth.expected if each.query == "many" and since <= each.moment < first]
    assert not truth.complete({each.identity for each in seen})
    assert truth.verdict(seen).found() == {"lost": len(owed)}
    assert owed


def test_text_when_it_gains_a_query_then_the_job_is_still_judged() -> None:
    assert still_judged(job(ONE), job(BOTH))
    assert not still_judged(job(BOTH), job(ONE))
    assert not still_judged(job(ONE), job(Query(text=STREAM + MEAN.replace("2 SEC", "3 SEC"))))
    assert extends(ONE, ONE)


@pytest.mark.parametrize(
    "text",
    [
        STREAM + 'q = COMPUTE AVG("value" FROM (events), 2 SECONDS)',
        STREAM + 'q = COMPUTE AVG("value" FROM (events), 9 EVENTS) EVERY 1 SECONDS',
        STREAM + 'q = COMPUTE MEDIAN("value" FROM (events), 2 SECONDS) EVERY 1 SECONDS WITH SAMPLE 0.5',
        STREAM.replace(', time="at"', "") + MEAN,
    ],
)
def test_text_when_answers_depend_on_more_than_their_windows_then_is_not_judged(text: str) -> None:
    assert not can_be_judged(Query(text=text))
    assert not judged(job(Query(text=text)))


def test_truth_when_the_job_answers_queries_then_is_about_the_events_of_its_streams() -> None:
    stored = [
        StoredInput(
            f"{site}/site/x",
            True,
            [StoredEvent(e.serial, json.dumps(e.fields).encode()) for e in EVENTS if e.site == site],
        )
        for site in ("a", "b")
    ]

    truth = truth_of(job(BOTH), stored, job(ONE), BEGIN)

    events = [each for site in ("a", "b") for each in EVENTS if each.site == site]
    assert truth == AnswersTruth.of(BOTH, ONE, events, BEGIN)


def test_disorder_when_an_event_comes_later_than_the_streams_allow_then_is_told() -> None:
    assert disorder_s(ONE, EVENTS) == 0
    assert disorder_s(ONE, [*EVENTS, event(240, late_s=10.5)]) == pytest.approx(7.25)
