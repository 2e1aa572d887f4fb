import json

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.workload.departures import (
    CLOSING_CARRIER,
    FLAWS,
    closing_event,
    departures,
    departures_frame,
    max_disorder_s,
    with_malformed,
)

DAY_S = 86_400.0


def test_first_departure_when_read_then_is_the_first_row_of_the_file() -> None:
    first = departures(limit=1)[0]
    assert json.loads(first.payload) == {
        "id": 0,
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "distance": 1400,
        "scheduled_at": "2013-01-01T10:15:00Z",
        "departed_at": "2013-01-01T10:17:00Z",
        "delay": 2,
    }
    assert first.at == 1357035420.0


def test_file_when_read_whole_then_has_every_departure_and_every_cancellation() -> None:
    events = departures()
    assert [event.id for event in events] == list(range(336_776))
    assert sum(b'"delay":null' in event.payload for event in events) == 8_255
    assert sum(b'"tailnum"' not in event.payload for event in events) == 2_512


def test_cancelled_departure_when_encoded_then_has_no_departure_and_no_delay() -> None:
    row = departures_frame()["delay"].isna().tolist().index(True)
    event = departures(limit=row + 1)[-1]
    fields = json.loads(event.payload)
    assert fields["departed_at"] is None
    assert fields["delay"] is None
    assert fields["scheduled_at"].startswith("2013-01-0")


def test_departures_of_an_airport_when_limited_then_are_the_first_ones_in_file_order() -> None:
    expected = departures_frame().query("origin == 'JFK'")["id"].head(500).tolist()
    events = departures("JFK", 500)
    assert [event.id for event in events] == expected
    assert {event.airport for event in events} == {"JFK"}


@pytest.mark.parametrize(("airport", "limit", "field"), [("SFO", None, "airport"), ("JFK", -1, "limit")])
def test_departures_when_asked_for_nonsense_then_name_the_field(airport: str, limit: int, field: str) -> None:
    with pytest.raises(TowpathError) as caught:
        departures(airport, limit)
    assert caught.value.detail.code is ErrorCode.INVALID
    assert caught.value.detail.field == field


def test_disorder_of_january_when_computed_then_is_what_a_plain_loop_finds() -> None:
    newest, largest = 0.0, 0.0
    for event in departures("LGA", 5_000):
        if b'"delay":null' in event.payload:
            continue
        newest = max(newest, event.at)
        largest = max(largest, newest - event.at)
    assert max_disorder_s("LGA", 5_000) == largest
    assert 0 < largest <= DAY_S


def test_disorder_of_the_whole_file_when_computed_then_spans_the_jump_from_december_to_february() -> None:
    assert 333 * DAY_S < max_disorder_s() < 334 * DAY_S


def test_closing_event_when_encoded_then_is_complete_and_later_than_the_watermark_needs() -> None:
    closing = closing_event("JFK")
    fields = json.loads(closing.payload)
    assert fields.keys() == json.loads(departures("JFK", 1)[0].payload).keys()
    assert fields["carrier"] == CLOSING_CARRIER
    assert fields["delay"] == 60, "what passes only late departures on passes it on"
    newest = max(event.at for event in departures("JFK"))
    assert closing.at - max_disorder_s("JFK") > newest + 31 * DAY_S
    assert len({closing_event(airport).id for airport in ("EWR", "JFK", "LGA")}) == 3
    assert closing.id >= 336_776


def test_malformed_records_when_sprinkled_then_every_flaw_comes_and_nothing_real_is_lost() -> None:
    real = departures("EWR", 60)
    mixed = list(with_malformed(real, every=10))
    assert [event for event in mixed if event.flaw is None] == real
    broken = [event for event in mixed if event.flaw is not None]
    assert [event.flaw for event in broken] == [*FLAWS, *FLAWS]
    assert [mixed.index(event) for event in broken] == [10, 21, 32, 43, 54, 65]
    assert list(with_malformed(real, every=10)) == mixed
    for event in broken:
        if event.flaw == "not_json":
            with pytest.raises(json.JSONDecodeError):
                json.loads(event.payload)
        elif event.flaw == "carrier_missing":
            assert "carrier" not in json.loads(event.payload)
        else:
            assert isinstance(json.loads(event.payload)["delay"], str)
