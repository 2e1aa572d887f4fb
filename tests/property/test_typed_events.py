"""The struct by which events are decoded finds in every event what a look at its single fields finds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from towpath.streams.event_times import micros_of, times_of
from towpath.streams.reading import REASON, Reading
from towpath.streams.typed_events import TypedEvents

FIELDS = {"s": "string", "n": "long", "d": "double", "b": "boolean", "at": "timestamp", "count": "long",
          "window_end": "timestamp"}  # fmt: skip

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(max_size=5) | st.datetimes().map(str) | st.dates().map(str)
values = st.none() | st.booleans() | numbers | texts | st.lists(st.booleans(), max_size=1)
members = st.dictionaries(st.sampled_from([*FIELDS, "other"]), values, max_size=6)
windows = st.none() | values | st.fixed_dictionaries({}, optional={"start": values, "end": values})
envelopes = st.fixed_dictionaries(
    {}, optional={"values": members | values, "key": members | values, "window": windows, "count": values}
)


time_texts = st.from_regex(
    r"[0-9]{4}-[01][0-9]-[0-3]?[0-9]([T ]([0-2]?[0-9](:[0-6]?[0-9](:[0-6]?[0-9](\.[0-9]{0,7})?)?)?)?)?"
    r" ?(Z|UTC|[+-][0-2]?[0-9](:?[0-5][0-9])?)?",
    fullmatch=True,
)


@given(st.lists(st.none() | time_texts, max_size=3))
def test_times_when_read_together_then_each_is_as_if_it_were_read_alone(texts: list[str | None]) -> None:
    alone = [None if text is None else micros_of(text) for text in texts]
    assert times_of(texts).cast("int64").to_pylist() == alone


@given(st.booleans(), st.lists(members | envelopes | values, max_size=4))
def test_events_when_decoded_together_then_each_is_as_if_it_were_looked_at_alone(
    from_device: bool, events: list[Any]
) -> None:
    decoder = TypedEvents(Reading(FIELDS, from_device=from_device))
    texts = [json.dumps(event).encode() for event in events]

    together = decoder.batch([1] * len(texts), [datetime.now(UTC)] * len(texts), texts)

    alone = [decoder._judged(text) for text in texts]
    assert together.column(REASON).to_pylist() == [reason for _, reason in alone]
    for name, attribute in zip(FIELDS, decoder._attributes, strict=True):
        if FIELDS[name] != "timestamp":
            found = together.column(name).to_pylist()
            assert found == [getattr(members, attribute) for members, _ in alone]
