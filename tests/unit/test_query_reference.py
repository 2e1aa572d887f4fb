"""The reference answers as docs/query-language.md says: time, moments, windows, keys, answers as events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from towpath.queries.checking import check
from towpath.queries.parsing import parse
from towpath.queries.reference import Event, answers

SECOND = 1_000_000
STREAM = 's = STREAM FROM topic(topic="site/x", sites="*", fields="v:double, w:double", value="v")\n'
BOTH = STREAM + 't = STREAM FROM topic(topic="site/y", sites="*", value="v")\n'


def at(seconds: float, v: Any = None, *, site: str = "jfk", topic: str = "site/x", **fields: Any) -> Event:
    """An event, whose serial number `asked` gives it."""
    return Event(site, topic, 0, round(seconds * SECOND), {"v": v, **fields})


def asked(text: str, events: list[Event], until: float = 1_000.0, query: str = "q") -> list[tuple[Any, ...]]:
    """T in seconds, the values of the key, and the value, of each answer."""
    numbered = [Event(one.site, one.topic, at, one.time, one.fields) for at, one in enumerate(events)]
    found = answers(check(parse(text)), numbered, round(until * SECOND))
    return [
        (one.moment / SECOND, *(value for _, value in one.key), one.value)
        for one in found
        if one.query == query
    ]


def of(expression: str, *values: Any, stream: str = STREAM) -> list[Any]:
    """The answers of an expression, one per event, at events of 1, 2, 3 … seconds."""
    events = [at(number, value) for number, value in enumerate(values, 1)]
    return [one[-1] for one in asked(f"{stream}q = COMPUTE {expression}", events)]


# Time


def test_events_when_handed_over_in_another_order_then_the_answers_are_the_same() -> None:
    queries = check(parse(f"{STREAM}q = COMPUTE EWMA[0.5](v) EVERY 5 s"))
    events = [Event("jfk", "site/x", serial, serial * SECOND, {"v": float(serial)}) for serial in range(10)]

    assert answers(queries, events[::-1], 60 * SECOND) == answers(queries, events, 60 * SECOND)


def test_events_when_of_the_same_time_then_are_in_the_order_of_sites_topics_and_serial_numbers() -> None:
    events = [
        at(1, 1.0, topic="site/y", site="jfk"),
        at(1, 2.0, topic="site/x", site="lga"),
        at(1, 3.0, topic="site/x", site="jfk"),
        at(1, 4.0, topic="site/x", site="jfk"),
    ]

    found = asked(f'{BOTH}q = COMPUTE "v" FROM (s, t)', events)

    assert [value for _, value in found] == [3.0, 4.0, 1.0, 2.0]


def test_event_when_its_stream_names_a_time_field_then_happened_at_that_time() -> None:
    text = 's = STREAM FROM topic(topic="site/x", time="at")\nq = COMPUTE v'
    events = [at(500, 1.0, at="1970-01-01T00:00:03Z"), at(1, 2.0), at(2, 3.0, at="1970-01-01T01:00:04+01:00")]

    assert asked(text, events) == [(3.000001, 1.0), (4.000001, 3.0)]


def test_event_when_more_than_delay_behind_an_earlier_one_of_its_site_then_does_not_count() -> None:
    text = 's = STREAM FROM topic(topic="site/x", sites="*", delay=2)\nq = COMPUTE SUM(v, 1 h) EVERY 1 h'
    late = [at(10, 1.0), at(8, 10.0), at(7.999999, 100.0), at(7, 1000.0, site="lga")]

    assert asked(text, late, 3_600) == [(3600.0, 1011.0)]
    assert asked(text, late[::-1], 3_600) == [(3600.0, 1111.0)]


def test_event_when_late_against_one_that_the_filters_drop_then_does_not_count() -> None:
    text = 's = STREAM FROM topic(topic="site/x", k="a")\nq = COMPUTE v'

    assert asked(text, [at(10, 1.0, k="b"), at(9, 2.0, k="a"), at(11, 3.0, k="a")]) == [(11.000001, 3.0)]


def test_event_when_a_field_has_another_type_then_is_rejected_for_all_queries() -> None:
    text = f"{STREAM}q = COMPUTE v EVERY 10 s  p = COMPUTE COUNT(v, 9 s) BY k"

    assert asked(text, [at(1, 1.0), at(2, 2.0, k=7.0), at(9, "much")]) == [(10.0, 1.0)]


def test_event_when_it_belongs_to_two_streams_of_a_function_then_counts_once() -> None:
    text = STREAM + 'u = STREAM FROM topic(topic="site/x", k="a") q = COMPUTE COUNT("v" FROM (s, u), 9 s)'

    assert [value for _, value in asked(text, [at(1, 1.0, k="a"), at(2, 2.0, k="b")])] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("parameters", "kept"),
    [
        ('sites="jfk"', [1, 2]),
        ('sites="jfk,lga"', [1, 2, 3]),
        ("n=5", [1, 3]),
        ('k="AA"', [1]),
        ('k="A%"', [1, 2]),
        ('k="%"', [1, 2]),
    ],
)
def test_event_when_a_parameter_names_its_field_then_belongs_only_with_that_value(
    parameters: str, kept: list[float]
) -> None:
    text = f'{STREAM}u = STREAM FROM topic(topic="site/x", {parameters})\nq = COMPUTE "v" FROM (u)'
    events = [at(1, 1.0, k="AA", n=5.0), at(2, 2.0, k="AB", n=6.0), at(3, 3.0, site="lga", n=5.0)]

    assert [value for _, value in asked(text, events)] == kept


def test_event_when_it_lacks_the_metric_of_a_stream_then_does_not_belong_to_it() -> None:
    text = 'u = STREAM FROM metrics(metricID="w")\nq = COMPUTE v'
    events = [at(1, 1.0, w=5.0), at(2, 2.0), at(3, 3.0, w=None), at(4, 4.0, w=0.0)]

    found = asked(text, [replace(event, topic="site/metrics") for event in events])

    assert [value for _, value in found] == [1.0, 4.0]


# Moments


def test_every_time_when_an_event_lies_before_then_the_key_is_asked_at_the_next_multiple() -> None:
    found = asked(
        f"{STREAM}q = COMPUTE v EVERY 10 s", [at(0, 1.0), at(9.999999, 2.0), at(10, 3.0), at(35, 4.0)]
    )

    assert found == [(10.0, 2.0), (20.0, 3.0), (40.0, 4.0)]


def test_every_time_when_a_window_still_holds_a_value_then_the_key_is_asked() -> None:
    found = asked(f"{STREAM}q = COMPUTE SUM(v, 25 s) EVERY 10 s", [at(1, 1.0), at(15, 2.0)])

    assert found == [(10.0, 1.0), (20.0, 3.0), (30.0, 2.0), (40.0, 2.0)]


def test_every_time_when_only_a_window_of_events_holds_a_value_then_the_key_is_not_asked() -> None:
    assert asked(f"{STREAM}q = COMPUTE SUM(v, 5 EVENTS) EVERY 10 s", [at(1, 1.0)]) == [(10.0, 1.0)]


def test_every_time_when_a_function_of_when_finds_a_value_then_the_key_is_asked() -> None:
    text = f"{STREAM}q = COMPUTE RUNNING_COUNT(v) EVERY 10 s WHEN COUNT(w, 20 s) > 0"

    assert asked(text, [at(1, 1.0), at(12, None, w=5.0)]) == [(20.0, 1.0), (30.0, 1.0)]


def test_without_every_when_an_event_comes_then_the_moment_is_a_microsecond_later() -> None:
    assert asked(f"{STREAM}q = COMPUTE SUM(v, 2 s)", [at(1, 1.0), at(2.5, 2.0)]) == [
        (1.000001, 1.0),
        (2.500001, 3.0),
    ]


def test_without_every_when_events_have_one_time_then_each_sees_those_before_it_and_itself() -> None:
    assert asked(f"{STREAM}q = COMPUTE SUM(v, 2 s)", [at(1, 1.0), at(1, 2.0), at(1, 4.0)]) == [
        (1.000001, 1.0), (1.000001, 3.0), (1.000001, 7.0),
    ]  # fmt: skip


def test_without_every_when_no_function_finds_a_value_in_an_event_then_it_is_no_moment() -> None:
    events = [at(1, 1.0), at(2, None), at(3, 20.0), at(4, 5.0)]

    assert asked(f"{STREAM}q = COMPUTE RUNNING_COUNT(v WHEN < 10)", events) == [
        (1.000001, 1.0),
        (4.000001, 2.0),
    ]


def test_every_number_when_events_of_the_key_are_counted_then_each_nth_is_a_moment() -> None:
    events = [at(n, float(n), k="ab"[n % 2]) for n in range(1, 8)]

    found = asked(f"{STREAM}q = COMPUTE SUM(v, 1 h) BY k EVERY 2 EVENTS", events)

    assert found == [(3.000001, "b", 4.0), (4.000001, "a", 6.0), (7.000001, "b", 16.0)]


def test_answers_when_after_until_then_are_not_among_those_returned() -> None:
    assert asked(f"{STREAM}q = COMPUTE v EVERY 10 s", [at(1, 1.0), at(11, 2.0)], until=19.9) == [(10.0, 1.0)]


# Windows


def test_window_of_time_when_asked_then_is_half_open() -> None:
    events = [at(9.999999, 1.0), at(10, 2.0), at(19.999999, 4.0), at(20, 8.0)]

    assert asked(f"{STREAM}q = COMPUTE SUM(v, 10 s) EVERY 20 s", events) == [(20.0, 6.0)]


def test_window_of_time_when_it_ended_ago_then_holds_what_was_in_it_then() -> None:
    found = asked(f"{STREAM}q = COMPUTE SUM(v, 10 s, 20 s) EVERY 10 s", [at(5, 1.0), at(12, 2.0)])

    assert found == [(30.0, 1.0), (40.0, 2.0)]


def test_window_of_events_when_asked_then_holds_the_newest_values_of_that_function() -> None:
    events = [at(1, 1.0), at(2, 2.0), at(3, None, w=1.0), at(4, 4.0)]

    text = f"{STREAM}q = COMPUTE SUM(v, 2 EVENTS) + COUNT(w, 1 h)"
    assert [value for _, value in asked(text, events)] == [1.0, 3.0, 4.0, 7.0]


def test_window_of_events_when_it_ended_ago_then_holds_the_newest_of_then() -> None:
    events = [at(1, 1.0), at(2, 2.0), at(3, 4.0), at(13, 8.0)]

    assert asked(f"{STREAM}q = COMPUTE SUM(v, 2 EVENTS, 10 s)", events) == [(13.000001, 6.0)]


# No value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("COUNT(v, 5 s)", 0.0),
        ("RUNNING_COUNT(v)", 0.0),
        *[(f"{name}(v, 5 s)", None) for name in ("AVG", "SUM", "MIN", "MAX", "MEDIAN", "MODE", "VARIANCE")],
        *[
            (f"{name}(v)", None)
            for name in ("RUNNING_MEAN", "RUNNING_MIN", "RUNNING_MAX", "RUNNING_SDEV", "DIFF")
        ],
    ],
)
def test_function_when_it_has_no_values_then_counts_are_zero_and_others_are_not_published(
    expression: str, value: float | None
) -> None:
    found = asked(f"{STREAM}q = COMPUTE {expression} + 0 * w", [at(1, None, w=1.0)])

    assert [one for _, one in found] == ([] if value is None else [value])


@pytest.mark.parametrize("expression", ["VARIANCE(v, 9 s)", "SDEV(v, 9 s)", "RUNNING_SDEV(v)", "DIFF(v)"])
def test_function_when_it_needs_two_values_then_one_is_no_answer(expression: str) -> None:
    assert len(of(expression, 1.0)) == 0
    assert len(of(expression, 1.0, 3.0)) == 1


@pytest.mark.parametrize(
    "expression", ["1 / v", "5 % v", "SQRT(v - 1)", "-(1 / v)", "ABS(1 / v)", "v + 1 / v", "1e308 * 1e10 + v"]
)
def test_arithmetic_when_it_has_no_value_then_there_is_no_answer(expression: str) -> None:
    assert of(expression, 0.0) == []


def test_arithmetic_of_single_events_when_it_has_no_value_then_the_event_is_left_out() -> None:
    assert of("AVG(6 / v, 9 s)", 0.0, 2.0, 0.0, 3.0) == [3.0, 2.5]


@pytest.mark.parametrize(("value", "rest"), [(7.0, 1.0), (-7.0, -1.0)])
def test_rest_of_a_division_when_computed_then_has_the_sign_of_the_dividend(
    value: float, rest: float
) -> None:
    assert of("v % 3", value) == [rest]
    assert of("v % -3", value) == [rest]


@pytest.mark.parametrize("operator", [">", "<", ">=", "<=", "==", "!="])
def test_comparison_when_a_side_has_no_value_then_does_not_hold(operator: str) -> None:
    assert of(f"v WHEN 1 / v {operator} 1", 0.0) == []
    assert of(f"v WHEN 1 {operator} 1 / v", 0.0) == []
    assert of(f"COUNT(w WHEN {operator} 1, 9 s) + v", 2.0) == [2.0]


def test_condition_when_and_or_and_in_are_joined_then_and_binds_tighter() -> None:
    assert of("v WHEN > 8 OR > 1 AND < 4 OR IN (6, 7)", *map(float, range(10))) == [2.0, 3.0, 6.0, 7.0, 9.0]


def test_list_of_outliers_when_empty_then_is_not_published() -> None:
    text = f"{STREAM}q = COMPUTE OUTLIER_DETECTION(v, 10 s) EVERY 10 s WITH ALGORITHM pmcod AND K=1 AND R=0.5"

    found = asked(text, [at(1, 1.0), at(2, 1.5), at(11, 1.0), at(12, 1.6)])

    alone = [
        {"time": round(time * SECOND), "value": value, "neighbours": 0}
        for time, value in ((11, 1.0), (12, 1.6))
    ]
    assert found == [(20.0, alone)]


# Keys


def test_key_when_it_comes_then_is_asked_as_long_as_a_window_has_values() -> None:
    events = [at(1, 1.0, k="a"), at(11, 2.0, k="b"), at(32, 4.0, k="a")]

    found = asked(f"{STREAM}q = COMPUTE SUM(v, 10 s) BY k EVERY 10 s", events)

    assert found == [(10.0, "a", 1.0), (20.0, "b", 2.0), (40.0, "a", 4.0)]


def test_running_function_when_a_key_was_away_then_still_knows_it() -> None:
    events = [at(1, 1.0, k="a"), at(90_000, 2.0, k="a")]

    assert asked(f"{STREAM}q = COMPUTE RUNNING_COUNT(v) BY k", events, 1e6)[-1][-1] == 2.0


def test_event_when_it_lacks_a_field_of_by_then_only_other_queries_count_it() -> None:
    text = f"{STREAM}q = COMPUTE COUNT(v, 9 s) BY k, g EVERY 9 s  p = COMPUTE COUNT(v, 9 s) EVERY 9 s"
    events = [at(1, 1.0, k="a", g="x"), at(2, 1.0, k="a"), at(3, 1.0, k="a", g=None)]

    assert asked(text, events) == [(9.0, "a", "x", 1.0)]
    assert asked(text, events, query="p") == [(9.0, 3.0)]


def test_key_when_it_is_a_square_of_the_map_then_is_its_geohash() -> None:
    text = f"{STREAM}q = COMPUTE v BY GEOHASH[11](lat, lon)"
    events = [
        at(1, 1.0, lat=57.64911, lon=10.40744),
        at(2, 2.0, lat=91.0, lon=10.0),
        at(3, 3.0, lat=-25.382708, lon=-49.265506),
        at(4, 4.0, lat=1.0),
    ]

    assert [key for _, key, _ in asked(text, events)] == ["u4pruydqqvj", "6gkzwgjzn82"]


# Answers as events


def test_answer_when_read_by_another_query_then_lies_in_the_window_that_ends_at_its_moment() -> None:
    text = f"{STREAM}p = COMPUTE v EVERY 10 s  q = COMPUTE SUM(p, 20 s) EVERY 10 s"

    assert asked(text, [at(1, 1.0), at(11, 2.0)]) == [(10.0, 1.0), (20.0, 3.0), (30.0, 2.0)]


def test_answer_when_it_was_not_published_then_no_query_reads_it() -> None:
    text = f"{STREAM}p = COMPUTE v WHEN > 1  q = COMPUTE RUNNING_COUNT(INSIGHT p)"

    assert asked(text, [at(1, 1.0), at(2, 2.0), at(3, 3.0)]) == [(2.000001, 1.0), (3.000001, 2.0)]


def test_answers_when_of_the_same_time_then_are_in_the_order_of_their_keys() -> None:
    text = f"{STREAM}p = COMPUTE SUM(v, 10 s) BY k EVERY 10 s  q = COMPUTE p * 2"

    assert [one[-1] for one in asked(text, [at(1, 5.0, k="b"), at(2, 3.0, k="a")])] == [6.0, 10.0]


def test_answers_when_of_the_same_time_as_events_then_come_after_them_by_name() -> None:
    text = f"{STREAM}b = COMPUTE v + 10  a = COMPUTE v + 100  q = COMPUTE v - b + a"

    assert [one[-1] for one in asked(text, [at(1, 1.0), at(2, 2.0)])] == [91.0, 92.0, 93.0, 92.0]


def test_answers_when_grouped_then_another_query_may_group_them_by_fewer_fields() -> None:
    text = f"{STREAM}p = COMPUTE v BY k, g  q = COMPUTE SUM(p, 10 s) BY g EVERY 10 s"
    events = [at(1, 1.0, k="a", g="x"), at(2, 2.0, k="b", g="x"), at(3, 4.0, k="a", g="y")]

    assert asked(text, events) == [(10.0, "x", 3.0), (10.0, "y", 4.0)]


def test_two_streams_when_in_one_query_then_are_joined_by_key_and_window() -> None:
    text = f'{BOTH}q = COMPUTE MAX("v" FROM (s), 10 s) / MAX("v" FROM (t), 10 s) BY k EVERY 10 s'
    events = [
        at(1, 8.0, k="a"),
        at(2, 4.0, k="a", topic="site/y"),
        at(3, 5.0, k="b"),
        at(14, 2.0, k="b", topic="site/y"),
    ]

    assert asked(text, events) == [(10.0, "a", 2.0)]


# Options


def sampled(share: float) -> list[int]:
    text = f"{STREAM}q = COMPUTE v WITH SAMPLE {share}"
    return [round(value) for _, value in asked(text, [at(n, float(n)) for n in range(400)], 1e6)]


def test_sample_when_taken_then_is_about_its_share_and_part_of_every_larger_sample() -> None:
    fifth, half = sampled(0.2), sampled(0.5)

    assert 60 < len(fifth) < 100
    assert {*fifth} < {*half}


def test_sample_when_taken_then_serial_numbers_choose_as_the_engine_hashes_them() -> None:
    # spark.range(20).where("pmod(xxhash64(id), 1000000) < 200000")
    assert [n for n in sampled(0.2) if n < 20] == [0, 3, 8, 9, 15, 18]


def test_counts_and_sums_when_sampled_then_are_scaled_up_except_in_windows_of_events() -> None:
    events = [at(n, 2.0) for n in range(1, 61)]

    def last(expression: str) -> float:
        return asked(f"{STREAM}q = COMPUTE {expression} WITH SAMPLE 0.5", events)[-1][-1]

    count = len([n for n in sampled(0.5) if n < 60])
    assert last("COUNT(v, 1 h)") == last("RUNNING_COUNT(v)") == last("SUM(v, 1 h) / 2") == 2 * count
    assert last("COUNT(v, 5 EVENTS)") == 5
    assert last("AVG(v, 1 h)") == 2.0


def test_answers_when_returned_then_are_in_the_order_of_queries_moments_and_keys() -> None:
    queries = check(parse(f"{STREAM}q = COMPUTE p BY k  p = COMPUTE v BY k EVERY 10 s"))
    events = [Event("jfk", "site/x", n, n * SECOND, {"v": 1.0, "k": "ba"[n % 2]}) for n in range(20)]

    found = [
        (one.query, one.moment // SECOND, one.key[0][1]) for one in answers(queries, events, 99 * SECOND)
    ]

    assert found == [(query, moment, key) for query in "pq" for moment in (10, 20) for key in "ab"]
