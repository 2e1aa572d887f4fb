"""Results and rejected events as they are published: order, message ids, and JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from running.operators import DEVICE, UPSTREAM, assignment
from towpath.contracts.result import Rejected, Result
from towpath.streams.encoding import (
    AFTER,
    CLOSED,
    COUNT,
    IDENTITY,
    KEY,
    OWN_TEXT,
    THROUGH,
    VALUES,
    MessageEncoder,
    RejectedEvent,
)
from towpath.streams.plain_values import plain_values
from towpath.streams.reading import INPUT, SERIAL, STORED_AT

AT = datetime(2026, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", tz="UTC")
ENCODER = MessageEncoder.of(assignment({"kind": "forward"}, DEVICE, UPSTREAM), "cloud")
FIRST, SECOND = ENCODER.codes


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Results; what a row leaves out is that of event n, stored n seconds after the start."""
    own = [
        {SERIAL: n, STORED_AT: AT + timedelta(seconds=n), VALUES: {"v": n}} for n in range(1, len(rows) + 1)
    ]
    return pa.Table.from_pylist([{**before, **row} for before, row in zip(own, rows, strict=True)])


def test_results_when_they_stand_for_events_then_ids_are_of_input_and_serial_in_order() -> None:
    rows = table([{SERIAL: 9, INPUT: 1}, {SERIAL: 2, INPUT: 0}])
    second, first = ENCODER.results(rows)[::-1]
    assert (first.identity, second.identity) == (f"job/{FIRST}/2", f"job/{SECOND}/9")
    assert first.body == (
        b'{"job":"job","site":"cloud","epoch":3,"serial":2,"input":"jfk/site/a",'
        b'"stored_at":"2026-01-01T00:00:02.000Z","count":1,"values":{"v":2}}'
    )
    assert Result.model_validate_json(second.body).input == UPSTREAM


def test_results_when_several_of_one_event_have_one_id_then_none_is_lost_in_silence() -> None:
    user_code = {"kind": "python", "entry": "own_code:run"}
    encoder = MessageEncoder.of(assignment(user_code, DEVICE, UPSTREAM), "cloud")
    rows = [{SERIAL: 9, INPUT: 0}, {SERIAL: 9, INPUT: 1}, {SERIAL: 9, INPUT: 0, STORED_AT: AT}]
    with pytest.raises(RuntimeError, match=f"several results have the id job/{FIRST}/9"):
        encoder.results(table(rows))
    told_apart = [{**row, IDENTITY: {"part": n}} for n, row in enumerate(rows)]
    assert len({message.identity for message in encoder.results(table(told_apart))}) == 3


def test_results_when_one_event_came_twice_then_its_results_are_the_same_and_none_is_lost() -> None:
    user_code = {"kind": "python", "entry": "own_code:run"}
    row = {SERIAL: 9, STORED_AT: AT, VALUES: {"v": 1}}
    for operator in (user_code, {"kind": "forward"}):
        first, second = MessageEncoder.of(assignment(operator, DEVICE), "cloud").results(table([row, row]))
        assert first == second


def test_punctuation_when_made_then_is_an_empty_window_with_an_id_of_its_end() -> None:
    made = ENCODER.punctuation(1_000)
    read = Result.model_validate_json(made.body)

    assert made.identity == "job/1000/1000"
    assert read.window is not None
    assert read.window.start == read.window.end == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_results_when_windows_closed_then_order_and_ids_are_those_of_the_windows() -> None:
    def window(hour: int, key: Any, serial: int) -> dict[str, Any]:
        start = AT + timedelta(hours=hour)
        bounds = {"start": start, "end": start + timedelta(hours=1)}
        return {SERIAL: serial, CLOSED: bounds, KEY: {"k": key}, COUNT: 4}

    later, earlier = ENCODER.results(table([window(1, "x", 3), window(0, "é", 7)]))[::-1]
    assert later.identity == 'job/1767229200000/1767232800000/{"k":"x"}'
    digest = earlier.identity.removeprefix("job/")
    assert (len(digest), digest.isalnum()) == (64, True), "no header takes other than ASCII"
    result = Result.model_validate_json(earlier.body)
    assert result.window is not None
    assert (result.window.start, result.count, result.key) == (AT, 4, {"k": "é"})


def test_results_when_they_cover_a_range_then_ids_have_it() -> None:
    (message,) = ENCODER.results(table([{AFTER: 3, THROUGH: 9, KEY: {"k": 1.5e7}}]))
    assert message.identity == 'job/processed/3/9/{"k":1.5E7}'
    assert json.loads(message.body)["through"] == 9


@pytest.mark.parametrize(
    ("number", "digits"),
    [(0.0, "0.0"), (1.0, "1.0"), (100.5, "100.5"), (0.001, "0.001"), (9999999.0, "9999999.0"), (1e7, "1.0E7"),
     (-12345678.0, "-1.2345678E7"), (0.0005, "5.0E-4"), (1e300, "1.0E300"), (1.25e-300, "1.25E-300")],
)  # fmt: skip
def test_identity_when_it_has_a_double_then_digits_are_those_of_java(number: float, digits: str) -> None:
    (message,) = ENCODER.results(table([{IDENTITY: {"a": number, "b": "x"}}]))
    assert message.identity == f'job/[{digits},"x"]'


def test_identity_when_it_is_null_then_the_event_identifies_the_result() -> None:
    known, unknown = ENCODER.results(table([{IDENTITY: {"at": AT, "n": None}}, {IDENTITY: None}]))
    assert known.identity == 'job/["2026-01-01T00:00:00.000000Z",null]'
    assert unknown.identity == f"job/{FIRST}/2"


def test_values_when_user_code_made_a_text_then_only_an_object_stays_as_it_is() -> None:
    made = ['{"x":1.10}', "5", '{"x":', None]
    rows = table([{OWN_TEXT: text} for text in made]).drop_columns([VALUES])
    values = [message.body.partition(b'"values":')[2][:-1] for message in ENCODER.results(rows)]
    assert values == [b'{"x":1.10}', b'{"value":"5"}', b'{"value":"{\\"x\\":"}', b"{}"]


def test_rejected_events_when_told_twice_then_each_appears_once_in_order() -> None:
    micros = round(AT.timestamp() * 1e6)
    bad = RejectedEvent(serial=5, input=1, stored_at=micros, reason="no", text='{"é"')
    other = RejectedEvent(serial=7, input=0, stored_at=micros, reason="no", text="")
    messages = ENCODER.rejected([bad, other, bad])
    assert [m.identity for m in messages] == [f"job/rejected/{FIRST}/7", f"job/rejected/{SECOND}/5"]
    assert Rejected.model_validate_json(messages[1].body) == Rejected(
        job="job", serial=5, input=UPSTREAM, stored_at=AT, reason="no", event='{"é"'
    )


def test_values_when_they_tell_results_apart_then_are_exact() -> None:
    numbers = pa.array([1.5, float("nan"), float("-inf")])
    assert plain_values(numbers, exact=True) == [1.5, "NaN", "-Infinity"]
    assert plain_values(pa.array([AT], TIME), exact=True) == ["2026-01-01T00:00:00.000000Z"]


@pytest.mark.parametrize(
    ("kind", "values", "plain"),
    [
        (pa.float64(), [1.5, float("nan"), float("-inf"), None], [1.5, None, None, None]),
        (pa.struct([("a", pa.float64())]), [{"a": float("nan")}, {"a": 1.0}], [{}, {"a": 1.0}]),
        (pa.map_(pa.float64(), pa.float64()), [[(float("inf"), 2.0)]], [{"Infinity": 2.0}]),
        (TIME, [AT, None], ["2026-01-01T00:00:00.000Z", None]),
        (pa.timestamp("us"), [datetime(2026, 1, 1)], ["2026-01-01T00:00:00.000"]),
        (pa.date32(), [date(2026, 1, 1), None], ["2026-01-01", None]),
        (pa.decimal128(20, 2), [Decimal("1.10")], [Decimal("1.10")]),
        (pa.list_(TIME), [[AT, None], None, []], [["2026-01-01T00:00:00.000Z", None], None, []]),
        (pa.map_(pa.int64(), pa.float64()), [[(1, 2.0)], None], [{"1": 2.0}, None]),
        (pa.struct([("a", pa.struct([("b", pa.int64())])), ("c", TIME)]),
         [{"a": {"b": None}, "c": AT}, {"a": None, "c": None}, None],
         [{"a": {}, "c": "2026-01-01T00:00:00.000Z"}, {}, None]),
    ],
)  # fmt: skip
def test_column_when_made_plain_then_json_can_write_it_and_nulls_are_left_out_of_objects(
    kind: pa.DataType, values: list[Any], plain: list[Any]
) -> None:
    assert plain_values(pa.array(values, kind)) == plain
