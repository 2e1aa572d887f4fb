"""Planning of the Spark source, without a broker: offsets, limits, pauses, nudges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from towpath.streams import event_reader, pacing, source
from towpath.streams.event_reader import RangeReader, Recalled, SerialRange
from towpath.streams.failures import EventsLost, EventsRenumbered
from towpath.streams.passing import ChangedMessage
from towpath.streams.reading import REASON, SERIAL, TEXT, WEIGHT, Reading
from towpath.streams.source import StreamReader
from towpath.streams.stream_view import StreamView


class Log:
    """A stream that keeps serial numbers `first` to `last`."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.created = "once"
        self.times: dict[int, str] = {}
        self.lag = 0
        self.mine = range(0)
        self.asked: list[tuple[int, int]] = []
        self.bodies: dict[int, bytes] = {}

    def view(self, stream: str, fresh_s: float = 0) -> StreamView:
        at = self.times.get(self.last, "")
        fed = {"is_fed": True, "last_stored_at": at}
        return StreamView(stream, self.created, (), self.first, self.last, 0, self.lag, **fed)

    def storing_times(self, stream: str, serial: int) -> list[str]:
        return [self.times[serial]] if serial in self.times else []

    def read(self, stream: str, after: int, through: int) -> Iterator[list[ChangedMessage]]:
        """Return messages of `mine`, and of another topic."""
        self.asked.append((after, through))
        if after + 1 < self.first:
            raise EventsLost(stream, after + 1, self.first - 1)
        at = datetime(2026, 1, 1, tzinfo=UTC)
        yield [
            ChangedMessage(n, "mine" if n in self.mine else "other", at, self.bodies.get(n, b"{}"))
            for n in range(after + 1, through + 1)
        ]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    kept = Log(1, 100)
    monkeypatch.setattr(event_reader, "reader_for", lambda access: kept)
    return kept


WHERE = {
    "url": "nats://nowhere",
    "credentials_file": "none",
    "stream": "IN",
    **Reading(None, from_device=True).options(),
}


def reader(**options: str) -> StreamReader:
    return StreamReader({**WHERE, **options})


def test_initial_offset_when_no_serial_is_given_then_is_before_the_oldest_kept(log: Log) -> None:
    log.first = 41
    assert reader().initialOffset() == {"serial": 40}
    assert reader(after_serial="70").initialOffset() == {"serial": 70}


def test_latest_offset_when_limited_then_stays_within_the_limit(log: Log) -> None:
    assert reader().latestOffset({"serial": 10}, ReadAllAvailable()) == {"serial": 100}
    assert reader().latestOffset({"serial": 10}, ReadMaxRows(30)) == {"serial": 40}


def test_latest_offset_when_the_bound_has_changed_then_stays_within_the_new_one(
    log: Log, tmp_path: Path
) -> None:
    bound = tmp_path / "bound"
    bounded = reader(bound_file=str(bound), max_events="30")
    limit = bounded.getDefaultReadLimit()
    assert bounded.latestOffset({"serial": 10}, limit) == {"serial": 40}
    bound.write_text("7")
    assert bounded.latestOffset({"serial": 40}, limit) == {"serial": 47}
    bound.write_text("0")
    assert bounded.latestOffset({"serial": 47}, limit) == {"serial": 100}


def test_latest_offset_when_paused_then_is_the_start(log: Log, tmp_path: Path) -> None:
    pause = tmp_path / "pause"
    paused = reader(pause_file=str(pause), nudge="true")
    pause.touch()
    assert paused.latestOffset({"serial": 10}, ReadAllAvailable()) == {"serial": 10}


@pytest.mark.parametrize(("position", "planned"), [(0, 30), (70, 100), (71, 71), (100, 100)])
def test_latest_offset_when_a_batch_has_an_exact_size_then_plans_that_many_or_none(
    log: Log, position: int, planned: int
) -> None:
    counting = reader(exact_events="30")
    assert counting.latestOffset({"serial": position}, counting.getDefaultReadLimit()) == {"serial": planned}


def test_latest_offset_when_it_waits_for_an_exact_size_then_goes_on_once_that_many_came(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = reader(exact_events="30", trigger_s="0", pause_file="of this test")
    assert patient.latestOffset({"serial": 95}, ReadAllAvailable()) == {"serial": 95}
    monkeypatch.setattr(pacing.threading.Condition, "wait", lambda *_: setattr(log, "last", log.last + 10))
    assert patient.latestOffset({"serial": 95}, ReadAllAvailable()) == {"serial": 125}


def test_latest_offset_when_not_due_then_waits_until_it_is(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    paced = reader(trigger_s="3600", pause_file="of that test")
    assert paced.latestOffset({"serial": 90}, ReadMaxRows(5)) == {"serial": 95}
    assert paced.latestOffset({"serial": 95}, ReadAllAvailable()) == {"serial": 100}
    pauses = []
    monkeypatch.setattr(pacing.threading.Condition, "wait", lambda _, seconds: pauses.append(seconds))
    monkeypatch.setattr(pacing, "HOLD_S", 0.0)
    monkeypatch.setattr(StreamReader, "_paused", lambda _: len(pauses) > 3)
    log.last = 200
    assert paced.latestOffset({"serial": 100}, ReadAllAvailable()) == {"serial": 100}
    assert len(pauses) == 4


def test_latest_offset_when_two_sources_of_a_query_read_one_stream_then_only_one_waits(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [reader(trigger_s="3600", pause_file="of a query with two") for _ in range(2)]
    pauses = []
    monkeypatch.setattr(pacing.threading.Condition, "wait", lambda _, seconds: pauses.append(seconds))
    monkeypatch.setattr(StreamReader, "_paused", lambda _: bool(pauses))
    for each in sources:
        assert each.latestOffset({"serial": 95}, ReadAllAvailable()) == {"serial": 100}
    assert not pauses


def test_latest_offset_when_there_are_events_then_has_the_time_of_the_last_one(log: Log) -> None:
    log.times = {40: "t40", 100: "t100"}
    assert reader().latestOffset({"serial": 10}, ReadAllAvailable()) == {"serial": 100, "stored_at": "t100"}
    assert reader().latestOffset({"serial": 10}, ReadMaxRows(30)) == {"serial": 40, "stored_at": "t40"}
    assert reader().latestOffset({"serial": 100}, ReadAllAvailable()) == {"serial": 100}


TEN = {"serial": 10, "stored_at": "t10"}


@pytest.mark.parametrize(
    ("last", "there", "start"),
    [(9, "", {"serial": 10}), (9, "", TEN), (14, "later", TEN), (10, "later", {**TEN, "nudges": 1})],
    ids=["end lost, no time known", "end lost", "another event, and more", "another event"],
)
def test_latest_offset_when_the_stream_is_not_the_one_that_was_processed_then_says_what_to_do(
    log: Log, last: int, there: str, start: dict[str, Any]
) -> None:
    log.last, log.times = last, {10: there}
    with pytest.raises(EventsRenumbered, match=rf"up to serial 10.* serials 1\.\.{last}.*towpath resume"):
        reader().latestOffset(start, ReadAllAvailable())


@pytest.mark.parametrize(("last", "there"), [(9, ""), (14, "later")], ids=["end lost", "made again"])
def test_partitions_when_a_batch_was_planned_before_a_restart_then_are_held_to_the_same_stream(
    log: Log, last: int, there: str
) -> None:
    log.last, log.times = last, {10: there}
    with pytest.raises(EventsRenumbered):
        reader().partitions({"serial": 5, "stored_at": "t5"}, TEN)


def test_latest_offset_when_the_stream_is_made_again_under_the_query_then_is_held_to_it_once_more(
    log: Log,
) -> None:
    log.times = {10: "t10"}
    running = reader()
    assert running.latestOffset(TEN, ReadAllAvailable())["serial"] == 100
    log.created, log.times = "again", {10: "later"}
    with pytest.raises(EventsRenumbered, match="10 is another event"):
        running.latestOffset(TEN, ReadAllAvailable())


def test_latest_offset_when_the_last_event_has_expired_then_is_believed(log: Log) -> None:
    log.first = 11
    assert reader().latestOffset(TEN, ReadAllAvailable())["serial"] == 100


def test_latest_offset_when_a_mirror_ends_before_the_position_then_waits_while_events_may_come(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(source.time, "monotonic", lambda: clock[0])
    log.last, log.lag = 5, 3
    copied = reader(stream="MIRROR_jfk_IN")
    for clock[0] in (100.0, 200.0):
        assert copied.latestOffset(TEN, ReadAllAvailable()) == TEN, "it is being filled"
    log.lag = 0
    assert copied.latestOffset(TEN, ReadAllAvailable()) == TEN, "it has all there is, since just now"
    clock[0] = 211.0
    with pytest.raises(EventsRenumbered):
        copied.latestOffset(TEN, ReadAllAvailable())


def test_latest_offset_when_events_are_gone_then_says_which(log: Log) -> None:
    log.first = 51
    with pytest.raises(EventsLost, match=r"serials 11\.\.50 of IN"):
        reader().latestOffset({"serial": 10}, ReadAllAvailable())


def test_read_when_events_are_gone_and_the_job_goes_on_then_names_them_as_one_rejected_event(
    log: Log,
) -> None:
    log.first, log.mine = 51, range(1, 200)
    going_on = reader(on_loss="report")
    assert going_on.latestOffset({"serial": 10}, ReadAllAvailable()) == {"serial": 100}

    rows = [row for batch in going_on.read(SerialRange(10, 53)) for row in batch.to_pylist()]

    assert [row[SERIAL] for row in rows] == [50, 51, 52, 53]
    assert rows[0][REASON] == "events 11 to 50 of IN were gone before they were read"
    assert json.loads(rows[0][TEXT]) == {"lost": {"first": 11, "last": 50, "events": 40}}
    assert {row[REASON] for row in rows[1:]} == {None}
    assert [row[SERIAL] for batch in going_on.read(SerialRange(10, 30)) for row in batch.to_pylist()] == [30]


def test_latest_offset_when_stateful_then_first_one_after_a_start_differs_and_later_ones_do_not(
    log: Log,
) -> None:
    stateful = reader(nudge="true")
    first = stateful.latestOffset({"serial": 100}, ReadAllAvailable())
    assert first == {"serial": 100, "nudges": 1}
    assert stateful.latestOffset(first, ReadAllAvailable()) == first
    restarted = reader(nudge="true").latestOffset(first, ReadAllAvailable())
    assert restarted == {"serial": 100, "nudges": 2}


def test_latest_offset_when_stateful_and_far_behind_then_the_first_batch_is_small(log: Log) -> None:
    log.last = 200_000
    stateful = reader(nudge="true")
    first = stateful.latestOffset({"serial": 100}, ReadAllAvailable())
    assert first == {"serial": 5_100, "nudges": 1}
    assert stateful.latestOffset(first, ReadAllAvailable()) == {"serial": 200_000, "nudges": 1}


def test_partitions_when_backlog_is_large_then_ranges_cover_it_once(log: Log) -> None:
    log.last = 60_000
    ranges = reader(cores="2").partitions({"serial": 0}, {"serial": 60_000})
    assert ranges == [SerialRange(0, 30_000), SerialRange(30_000, 60_000)]
    assert reader(cores="2").partitions({"serial": 5}, {"serial": 5, "nudges": 1}) == []


def test_partitions_when_a_query_recalls_then_only_its_first_batch_after_a_restart_does(log: Log) -> None:
    recalling, ran = reader(recall="true"), {"serial": 5, "nudges": 1}
    assert recalling.partitions(ran, {"serial": 9, "nudges": 2}) == [SerialRange(5, 9), Recalled(5)]
    assert recalling.partitions(ran, {"serial": 9, "nudges": 1}) == [SerialRange(5, 9)]
    started = recalling.partitions({"serial": 5}, {"serial": 9, "nudges": 1})
    assert started == [SerialRange(5, 9)], "what was stored before the job's start is not the job's"


def test_recalled_events_when_the_job_began_later_then_none_is_of_before_its_start(log: Log) -> None:
    log.last = 5_000
    for begun, first in (("3990", 3_991), ("10", 3_001), ("4000", 3_001)):
        recalling = reader(recall="true", after_serial=begun)
        numbers = [-n for b in recalling.read(Recalled(4_000)) for n in b.column("serial").to_pylist()]
        assert numbers == [*range(first, 4_001)], begun


def test_recalled_events_when_read_then_they_are_the_last_ones_of_the_job_with_negative_serials(
    log: Log,
) -> None:
    log.first, log.last = 301, 5_000
    log.mine = range(1_990, 2_100)
    recalling = reader(recall="true", subject="mine")
    batches = list(recalling.read(Recalled(4_000)))
    assert [n for batch in batches for n in batch.column("serial").to_pylist()] == [
        -n for n in range(2_001, 2_100)
    ], "a thousand serial numbers at a time, until some are the job's"
    log.mine = range(0)
    assert list(recalling.read(Recalled(4_000))) == []
    assert min(after for after, _ in log.asked) == 300, "what is not kept is not asked for"


def test_range_when_read_as_a_batch_then_is_split_like_a_backlog() -> None:
    options = {**WHERE, "cores": "2"}
    assert RangeReader({**options, "after": "10", "through": "10"}).partitions() == []
    assert RangeReader({**options, "after": "10", "through": "60010"}).partitions() == [
        SerialRange(10, 30_010),
        SerialRange(30_010, 60_010),
    ]


LOOKING_BACK = {"subject": "mine", "identity": "id", "repeats_within": "50"}


def events_of(looking: StreamReader | RangeReader, after: int, through: int) -> list[int]:
    """Return the serial numbers that a plan gets of a range."""
    batches = looking.read(SerialRange(after, through))
    return [n for batch in batches for n in batch.column("serial").to_pylist()]


def send(log: Log, **at: str) -> None:
    """Let the device send its events `x`, `y`… at these serial numbers."""
    for identity, serials in at.items():
        log.bodies |= {int(n): json.dumps({"id": identity}).encode() for n in serials.split()}
    log.mine = range(1, 1_000)


def test_events_when_one_repeats_an_earlier_one_then_it_is_passed_over_whatever_was_read_before(
    log: Log,
) -> None:
    send(log, x="10 20 70 100", y="30 81")
    running = reader(**LOOKING_BACK)
    in_one_go = [*range(1, 20), *range(21, 70), *range(71, 100)]
    assert events_of(running, 0, 100) == in_one_go
    assert events_of(running, 0, 100) == in_one_go, "it may go back"
    assert events_of(reader(**LOOKING_BACK), 0, 100) == in_one_go, "it may start again"
    assert events_of(reader(**LOOKING_BACK), 65, 75) == [66, 67, 68, 69, 71, 72, 73, 74, 75]
    assert events_of(RangeReader({**WHERE, **LOOKING_BACK, "after": "0", "through": "100"}), 65, 71) == [
        *range(66, 70),
        71,
    ]


def test_events_when_no_identity_is_given_then_all_of_them_are_read_and_no_others(log: Log) -> None:
    send(log, x="10 20")
    assert events_of(reader(subject="mine"), 15, 25) == [*range(16, 26)]
    assert log.asked == [(15, 25)]


def test_events_when_micro_batches_follow_each_other_then_nothing_is_read_twice(log: Log) -> None:
    send(log, x="10 20")
    running = reader(**LOOKING_BACK)
    for after in range(40, 90, 10):
        events_of(running, after, after + 10)
    assert log.asked == [(0, 40), *((after, after + 10) for after in range(40, 90, 10))]


def test_events_when_the_earlier_ones_have_expired_then_those_that_are_kept_count(log: Log) -> None:
    send(log, x="10 60", y="50 61")
    log.first = 31
    assert events_of(reader(**LOOKING_BACK), 55, 62) == [56, 57, 58, 59, 60, 62]


def test_events_when_earlier_ones_expire_while_they_are_read_then_the_rest_counts(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(log, x="10 60", y="50 61")
    read, log.first = log.read, 5

    def expiring(stream: str, after: int, through: int) -> Iterator[list[ChangedMessage]]:
        log.first = 31
        return read(stream, after, through)

    monkeypatch.setattr(log, "read", expiring)
    assert events_of(reader(**LOOKING_BACK), 55, 62) == [56, 57, 58, 59, 60, 62]


def test_recalled_events_when_some_are_repeats_then_they_are_those_that_counted(log: Log) -> None:
    send(log, x="10 20", y="30 81")
    log.mine = range(10, 21)
    recalled = [*reader(recall="true", **LOOKING_BACK).read(Recalled(100))]
    assert [n for batch in recalled for n in batch.column("serial").to_pylist()] == [
        -n for n in range(10, 20)
    ]


def test_offset_when_a_job_is_behind_then_has_shares_and_its_micro_batch_the_weights(
    log: Log, tmp_path: Path
) -> None:
    log.times = {10: "2026-01-01T00:00:00.5Z", 70: "2026-01-01T00:00:18Z", 100: "2026-01-01T00:00:20.5Z"}
    shares = tmp_path / "shares"
    weighing = Reading(None, from_device=True, weighs=True).options()
    options = {"thinning": '{"strata": [], "salience": 0}', "shares_file": str(shares), **weighing}
    thinned = reader(**options)

    first = thinned.latestOffset({"serial": 10, "stored_at": log.times[10]}, ReadMaxRows(60))
    shares.write_text('{"": 0.5}')
    second = thinned.latestOffset(first, ReadMaxRows(60))

    # Four times as far behind as it may be, and then no more.
    assert first == {"serial": 70, "stored_at": log.times[70], "shares": {"*": 1 / 8}}
    assert second["shares"] == {"": 0.5}
    (part,) = thinned.partitions(first, second)
    (batch,) = thinned.read(part)
    assert 0 < batch.num_rows < 30
    assert set(batch.column(WEIGHT).to_pylist()) == {2.0}
    # A micro-batch that runs again reads the same events.
    again = next(reader(**options).read(part))
    assert again.column(SERIAL).to_pylist() == batch.column(SERIAL).to_pylist()
