"""The truth itself, held against numbers worked out by hand and against Python's own statistics."""

from __future__ import annotations

import json
import statistics
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest

from towpath.checker.clean_truth import Rejection, clean_truth
from towpath.checker.identity import EventIdentity, ValuesIdentity, WindowIdentity
from towpath.checker.truth import window_truth
from towpath.contracts.errors import TowpathError
from towpath.contracts.operators import Aggregate, Clean
from towpath.lab.workload.departures import departures, departures_frame, with_malformed

T0 = datetime(2013, 1, 1, tzinfo=UTC)

ALL = {
    "events": Aggregate.model_validate({"function": "count"}),
    "total": Aggregate.model_validate({"function": "sum", "field": "delay"}),
    "mean": Aggregate.model_validate({"function": "avg", "field": "delay"}),
    "least": Aggregate.model_validate({"function": "min", "field": "delay"}),
    "most": Aggregate.model_validate({"function": "max", "field": "delay"}),
    "spread": Aggregate.model_validate({"function": "stddev", "field": "delay"}),
    "p75": Aggregate.model_validate({"function": "percentile", "field": "delay", "q": 0.75}),
    "kinds": Aggregate.model_validate({"function": "distinct", "field": "delay"}),
}


def table(*rows: tuple[float | None, str | None, float | None]) -> pd.DataFrame:
    """Events as (seconds after T0, carrier, delay)."""
    return pd.DataFrame(
        {
            "at": [None if second is None else T0 + timedelta(seconds=second) for second, _, _ in rows],
            "carrier": [carrier for _, carrier, _ in rows],
            "delay": [delay for _, _, delay in rows],
        }
    )


def identity(second: int, carrier: str | None, size_s: int = 60) -> WindowIdentity:
    start = T0 + timedelta(seconds=second)
    key = () if carrier is None else (("carrier", carrier),)
    return WindowIdentity("job", start, start + timedelta(seconds=size_s), key)


def test_window_truth_when_computed_then_is_what_was_worked_out_by_hand() -> None:
    events = table((0, "UA", 1.0), (59.999, "UA", 2.0), (30, "UA", 4.0), (30, "UA", 4.0), (60, "UA", 9.0))
    truth = window_truth(events, "at", 60, ["carrier"], ALL, "job")
    assert list(truth) == [identity(0, "UA"), identity(60, "UA")]
    assert truth[identity(0, "UA")] == {
        "events": 4,
        "total": 11.0,
        "mean": 2.75,
        "least": 1.0,
        "most": 4.0,
        "spread": pytest.approx(1.5, rel=1e-12),
        "p75": 4.0,
        "kinds": 3,
    }
    assert truth[identity(60, "UA")] == {
        "events": 1,
        "total": 9.0,
        "mean": 9.0,
        "least": 9.0,
        "most": 9.0,
        "spread": None,
        "p75": 9.0,
        "kinds": 1,
    }


def test_percentile_when_between_two_values_then_is_interpolated_linearly() -> None:
    events = table((0, "UA", 0.0), (1, "UA", 10.0), (2, "UA", 20.0), (3, "UA", 50.0))
    truth = window_truth(events, "at", 60, ["carrier"], {"p75": ALL["p75"]}, "job")
    assert truth[identity(0, "UA")] == {"p75": 27.5}


def test_window_truth_when_values_are_missing_then_only_count_counts_them() -> None:
    events = table((0, "UA", None), (1, "UA", 5.0), (2, "AA", None))
    truth = window_truth(events, "at", 60, ["carrier"], ALL, "job")
    assert truth[identity(0, "UA")]["events"] == 2
    assert truth[identity(0, "UA")]["mean"] == 5.0
    nothing = truth[identity(0, "AA")]
    assert (nothing["events"], nothing["kinds"]) == (1, 0)
    assert {nothing[n] for n in ("total", "mean", "least", "most", "spread", "p75")} == {None}


def test_event_when_it_has_no_time_then_is_in_no_window_and_a_missing_key_is_a_key() -> None:
    events = table((None, "UA", 1.0), (0, None, 2.0))
    truth = window_truth(events, "at", 60, ["carrier"], {"events": ALL["events"]}, "job")
    assert truth == {identity(0, None): {"events": 1}}


def test_window_truth_when_without_key_or_events_then_has_one_or_no_result_per_window() -> None:
    events = table((0, "UA", 1.0), (1, "AA", 2.0))
    assert window_truth(events, "at", 60, [], ALL, "job")[identity(0, None)]["total"] == 3.0
    assert window_truth(events.iloc[:0], "at", 60, ["carrier"], ALL, "job") == {}


@pytest.mark.parametrize(("at", "size_s", "field"), [("when", 60.0, "when"), ("at", 0.0, "size_s")])
def test_window_truth_when_asked_for_nonsense_then_names_the_field(
    at: str, size_s: float, field: str
) -> None:
    with pytest.raises(TowpathError) as caught:
        window_truth(table((0, "UA", 1.0)), at, size_s, [], ALL)
    assert caught.value.detail.field == field


def test_window_truth_of_real_departures_then_agrees_with_plain_loops() -> None:
    truth = window_truth(departures_frame("JFK", 2_000), "departed_at", 3600, ["carrier"], ALL, "job")
    groups: dict[tuple[float, str], list[float]] = {}
    for event in departures("JFK", 2_000):
        fields = json.loads(event.payload)
        if fields["departed_at"] is not None:
            groups.setdefault((event.at // 3600 * 3600, fields["carrier"]), []).append(fields["delay"])
    assert len(truth) == len(groups)
    for (start, carrier), delays in groups.items():
        begin = datetime.fromtimestamp(start, UTC)
        key = (("carrier", carrier),)
        values = truth[WindowIdentity("job", begin, begin + timedelta(hours=1), key)]
        assert values["events"] == len(delays)
        assert values["mean"] == pytest.approx(statistics.fmean(delays), rel=1e-12)
        assert values["kinds"] == len(set(delays))
        if len(delays) > 1:
            assert values["spread"] == pytest.approx(statistics.stdev(delays), rel=1e-12)
            quartiles = statistics.quantiles(delays, n=4, method="inclusive")
            assert values["p75"] == pytest.approx(quartiles[2], rel=1e-12)


RULES = Clean.model_validate(
    {
        "fields": {
            "id": {"type": "long"},
            "carrier": {"type": "string", "pattern": "[A-Z0-9~]{2}"},
            "origin": {"type": "string", "one_of": ["EWR", "JFK", "LGA"]},
            "delay": {"type": "double", "minimum": -60, "maximum": 1500},
            "departed_at": {"type": "timestamp"},
            "tailnum": {"type": "string", "required": False},
            "final": {"type": "boolean", "required": False},
        },
        "identity": ["id"],
    }
)
GOOD = {"id": 1, "carrier": "UA", "origin": "JFK", "delay": 2, "departed_at": "2013-01-01T10:17:00Z"}


def event(**changes: Any) -> bytes:
    return json.dumps(GOOD | changes).encode()


def test_event_when_it_fits_then_is_accepted_with_its_declared_fields() -> None:
    truth = clean_truth([event(unknown=7)], RULES)
    assert truth.accepted == {
        0: {
            "id": 1,
            "carrier": "UA",
            "origin": "JFK",
            "delay": 2.0,
            "departed_at": datetime(2013, 1, 1, 10, 17, tzinfo=UTC),
            "tailnum": None,
            "final": None,
        }
    }
    assert truth.rejected == {}


@pytest.mark.parametrize(
    ("payload", "refusal"),
    [
        (b'{"id": 1, "carr', Rejection(None, "not a JSON object")),
        (b"[1]", Rejection(None, "not a JSON object")),
        (b"\xff\xfe", Rejection(None, "not a JSON object")),
        (b'{"delay": NaN}', Rejection(None, "not a JSON object")),
        (b"{}", Rejection("id", "missing")),
        (event(carrier=None), Rejection("carrier", "missing")),
        (event(carrier=7), Rejection("carrier", "not a string")),
        (event(carrier="UAL"), Rejection("carrier", "does not match [A-Z0-9~]{2}")),
        (event(origin="SFO"), Rejection("origin", "not one of the allowed")),
        (event(delay="late"), Rejection("delay", "not a double")),
        (event(delay=True), Rejection("delay", "not a double")),
        (event(delay=-61), Rejection("delay", "below -60.0")),
        (event(delay=1500.5), Rejection("delay", "above 1500.0")),
        (event(id=1.5), Rejection("id", "not a long")),
        (event(id=2**63), Rejection("id", "not a long")),
        (event(departed_at="soon"), Rejection("departed_at", "not a timestamp")),
        (event(tailnum=1), Rejection("tailnum", "not a string")),
        (event(final="yes"), Rejection("final", "not a boolean")),
    ],
)
def test_event_when_it_breaks_a_rule_then_is_rejected_for_that_reason(
    payload: bytes, refusal: Rejection
) -> None:
    assert clean_truth([payload], RULES).rejected == {0: refusal}


def test_event_when_repeated_then_is_accepted_once() -> None:
    truth = clean_truth([event(), event(delay=3), event(id=2)], RULES)
    assert list(truth.accepted) == [0, 2]
    assert truth.repeated == [1]


def test_clean_truth_of_real_departures_then_rejects_the_cancelled_and_the_planted() -> None:
    events = list(with_malformed(departures("EWR", 3_000), every=100))
    truth = clean_truth([event.payload for event in events], RULES)
    cancelled = int(departures_frame("EWR", 3_000)["delay"].isna().sum())
    assert cancelled > 0
    planted = {at for at, event in enumerate(events) if event.flaw is not None}
    assert len(planted) == 30
    assert planted < truth.rejected.keys()
    assert len(truth.rejected) == cancelled + 30
    assert len(truth.accepted) == 3_000 - cancelled


def test_clean_truth_when_handed_to_the_judge_then_is_keyed_by_device_identity_and_by_text() -> None:
    events = [event(), b"{"]
    truth = clean_truth(events, RULES)
    assert list(truth.results("clean", "id")) == [ValuesIdentity("clean", (("id", 1),))]
    assert truth.rejections(events) == {EventIdentity("{"): {"event": "{"}}
