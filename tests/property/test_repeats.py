"""However a stream is read, the events passed over are those that repeat earlier ones, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from towpath.streams import event_reader
from towpath.streams.event_reader import SerialRange
from towpath.streams.passing import ChangedMessage
from towpath.streams.reading import Reading
from towpath.streams.source import StreamReader
from towpath.streams.stream_view import StreamView

BODIES = {
    "one": b'{"id": 1}',
    "two": b'{"id": 2, "v": 1}',
    "two, sent later": b'{"v": 7, "id": 2}',
    "three": b'{"id": 3}',
    "no identity": b'{"v": 1}',
    "rubbish": b"[",
    "of another topic": b'{"id": 1}',
}

stored = st.lists(st.sampled_from([*BODIES]), min_size=8, max_size=40)


class Log:
    """A stream that is read in fetches of a few events."""

    def __init__(self, events: list[str], fetch: int) -> None:
        self.events = events
        self.fetch = fetch

    def view(self, stream: str, fresh_s: float = 0) -> StreamView:
        return StreamView(stream, "once", (), 1, len(self.events), 0, 0)

    def read(self, stream: str, after: int, through: int) -> Iterator[list[ChangedMessage]]:
        for begin in range(after, through, self.fetch):
            yield [self._message(n) for n in range(begin + 1, min(begin + self.fetch, through) + 1)]

    def _message(self, serial: int) -> ChangedMessage:
        event = self.events[serial - 1]
        subject = "other" if event == "of another topic" else "mine"
        return ChangedMessage(serial, subject, datetime(2026, 1, 1, tzinfo=UTC), BODIES[event])


def by_the_rule(events: list[str], within: int) -> list[int]:
    """Return the serial numbers of the events of the topic that repeat none."""
    names = [event.partition(",")[0] for event in events]
    return [
        n
        for n, name in enumerate(names, 1)
        if name in ("no identity", "rubbish")
        or (name != "of another topic" and name not in names[max(n - 1 - within, 0) : n - 1])
    ]


@given(st.data())
def test_events_when_read_in_any_pieces_and_over_any_restarts_then_are_those_of_the_rule(
    data: st.DataObject,
) -> None:
    events, within = data.draw(stored, label="events"), data.draw(st.integers(1, 12), label="within")
    expected = by_the_rule(events, within)
    log = Log(events, data.draw(st.integers(1, 10), label="fetch"))
    options = {"url": "", "credentials_file": "", "stream": "IN", "subject": "mine", "identity": "id",
               "repeats_within": str(within), **Reading(None, from_device=True).options()}  # fmt: skip
    end = len(events)
    parts = st.tuples(st.integers(0, end), st.integers(0, end)).map(sorted)
    with mock.patch.object(event_reader, "reader_for", return_value=log):
        reader, position = StreamReader(options), 0
        while position < end:
            match data.draw(
                st.sampled_from(["next", "again", "next after a restart", "part"]), label="batch"
            ):
                case "again":
                    after, through = data.draw(st.integers(0, position), label="after"), position
                case "part":  # Another worker has read what lies between.
                    after, through = data.draw(parts, label="part")
                case following:
                    if following != "next":
                        reader = StreamReader(options)
                    after, through = position, data.draw(st.integers(position + 1, end), label="through")
                    position = through
            bundles = reader.bundles(SerialRange(after, through))
            found = [event.stream_sequence for bundle in bundles for event in bundle]
            assert found == [n for n in expected if after < n <= through]
