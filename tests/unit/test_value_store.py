"""Values of a site: newest ones at once, a history that survives, transient ones that do not."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.storage import StorageSpec, ValueSelection, ValueSeriesList, Wanted
from towpath.stored_values.stored_value import About, StoredValue
from towpath.stored_values.value_store import TRIM_INTERVAL_S, ValueStore

NOW = 1_000_000.0
HOUR = 3600.0


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[ValueStore]:
    opened = ValueStore("jfk", tmp_path / "values.db", StorageSpec(kept_h=1), clock)
    yield opened
    opened.close()


def again(tmp_path: Path, clock: Clock, **spec: Any) -> ValueStore:
    return ValueStore("jfk", tmp_path / "values.db", StorageSpec(kept_h=1, **spec), clock)


def value(
    at: float, number: float, metric: str = "cpu", entity: str = "node:jfk", **more: Any
) -> StoredValue:
    return StoredValue(entity, metric, NOW + at, number, **more)


def read(store: ValueStore, wanted: Wanted = Wanted.LATEST, **selection: Any) -> ValueSeriesList:
    return store.read(ValueSelection(wanted=wanted, **selection))


def points(found: ValueSeriesList) -> dict[tuple[str, str], list[tuple[float, float]]]:
    return {(each.entity, each.metric): [(at - NOW, v) for at, v in each.points] for each in found.series}


def moment(at: float) -> datetime:
    return datetime.fromtimestamp(NOW + at, UTC)


def test_latest_when_an_older_value_comes_late_then_stays_the_newest(store: ValueStore) -> None:
    store.add([value(2, 20.0)])
    store.add([value(1, 10.0)])

    assert points(read(store)) == {("node:jfk", "cpu"): [(2.0, 20.0)]}
    assert points(read(store, Wanted.RANGE)) == {("node:jfk", "cpu"): [(1.0, 10.0), (2.0, 20.0)]}


def test_range_when_bounds_are_given_then_is_half_open(store: ValueStore) -> None:
    store.add([value(at, at) for at in range(5)])

    found = read(store, Wanted.RANGE, since=moment(1), until=moment(3))

    assert points(found) == {("node:jfk", "cpu"): [(1.0, 1.0), (2.0, 2.0)]}


def test_aggregate_when_of_several_series_then_is_also_of_all_together(store: ValueStore) -> None:
    store.add([value(0, 1.0), value(1, 3.0), value(0, 8.0, entity="pod:engine")])

    found = read(store, Wanted.AGGREGATE)

    assert [(s.entity, s.summary.count, s.summary.mean) for s in found.series if s.summary] == [
        ("node:jfk", 2, 2.0),
        ("pod:engine", 1, 8.0),
    ]
    assert found.summary is not None
    assert (found.summary.count, found.summary.min, found.summary.max, found.summary.mean) == (
        3,
        1.0,
        8.0,
        4.0,
    )


def test_selection_when_it_has_patterns_and_groups_then_all_must_fit(store: ValueStore) -> None:
    grouped = About(unit="ms", group="robots", labels={"podName": "r1"})
    store.add([value(0, 1.0, "delay_a", about=grouped), value(0, 2.0, "delay_b"), value(0, 3.0, "cpu")])

    (series,) = read(store, metrics=["delay_*"], groups=["rob*"]).series

    assert (series.metric, series.unit, series.group, series.labels) == (
        "delay_a",
        "ms",
        "robots",
        {"podName": "r1"},
    )


def test_values_when_the_process_ends_then_the_history_is_there_and_transient_ones_are_not(
    tmp_path: Path, clock: Clock, store: ValueStore
) -> None:
    store.add([value(0, 1.0), value(0, 2.0, "shown", is_transient=True)], {"METRICS": 7})
    before = points(read(store))
    store.close()

    later = again(tmp_path, clock)

    assert before == {("node:jfk", "cpu"): [(0.0, 1.0)], ("node:jfk", "shown"): [(0.0, 2.0)]}
    assert points(read(later)) == {("node:jfk", "cpu"): [(0.0, 1.0)]}
    assert (later.progress("METRICS"), later.progress("OUT_x")) == (7, 0)
    later.close()


def test_events_when_they_are_read_twice_then_count_once(store: ValueStore) -> None:
    for _ in range(2):
        store.add([value(0, 1.0), value(1, 2.0)], {"METRICS": 7})

    assert points(read(store, Wanted.RANGE)) == {("node:jfk", "cpu"): [(0.0, 1.0), (1.0, 2.0)]}


def test_values_when_they_came_before_what_is_kept_then_go_with_their_series(
    store: ValueStore, clock: Clock
) -> None:
    store.add([value(0, 1.0, "gone"), value(0, 2.0, "shown", is_transient=True), value(0, 1.0)])
    clock.now += HOUR + TRIM_INTERVAL_S

    store.add([value(-1e6, 5.0)])

    assert points(read(store, Wanted.RANGE)) == {("node:jfk", "cpu"): [(-1e6, 5.0)]}
    assert [each.metric for each in read(store).series] == ["cpu"]


def test_values_when_they_do_not_fit_then_the_oldest_go_first(tmp_path: Path, clock: Clock) -> None:
    small = again(tmp_path, clock, disk_mb=1)
    for minute in range(10):
        small.add([value(100 * minute + at / 1000, float(minute)) for at in range(10_000)])
        clock.now += TRIM_INTERVAL_S

    small.add([value(2000, 20.0)])

    found = read(small, Wanted.AGGREGATE).summary
    assert found is not None
    assert 10_000 < found.count < 60_000
    assert (found.min > 3, found.max) == (True, 20.0)
    small.close()


def test_range_when_it_has_more_values_than_the_limit_then_is_refused(store: ValueStore) -> None:
    store.add([value(at, at) for at in range(5)])

    with pytest.raises(TowpathError) as refused:
        read(store, Wanted.RANGE, limit=4)

    assert (refused.value.detail.code, refused.value.detail.field) == (ErrorCode.INVALID, "limit")
    assert len(read(store, Wanted.RANGE, limit=5).series[0].points) == 5


def test_values_when_the_disk_refuses_them_then_the_newest_are_there_and_nothing_is_half_written(
    store: ValueStore,
) -> None:
    store.add([value(0, 1.0)], {"METRICS": 1})
    store._disk._connection.execute("PRAGMA query_only = true")

    with pytest.raises(sqlite3.Error):
        store.add([value(1, 2.0), value(1, 3.0, "new")], {"METRICS": 2})

    assert points(read(store)) == {("node:jfk", "cpu"): [(1.0, 2.0)], ("node:jfk", "new"): [(1.0, 3.0)]}
    assert points(read(store, Wanted.RANGE)) == {("node:jfk", "cpu"): [(0.0, 1.0)]}
    assert store.progress("METRICS") == 1


def test_list_when_asked_for_then_has_no_values(store: ValueStore) -> None:
    store.add([value(0, 1.0), value(0, 2.0, "shown", is_transient=True)])

    found = read(store, Wanted.LIST).series

    assert [(each.metric, each.transient, each.points) for each in found] == [
        ("cpu", False, []),
        ("shown", True, []),
    ]


SOURCES = {"METRICS": NOW, "OUT_x": NOW - 1000}
"""Streams of an owner, with the time at which the newest value came."""


@pytest.mark.parametrize(
    ("progress", "after_gap", "since", "is_whole"),
    [
        ({"METRICS": 9, "OUT_x": 9}, {}, None, True),
        ({"METRICS": 9}, {}, None, False),
        ({"METRICS": 9}, {}, -500, True),
        ({"METRICS": 9, "OUT_x": 9}, {"METRICS": NOW - 600}, None, False),
        ({"METRICS": 9, "OUT_x": 9}, {"METRICS": NOW - 600}, -500, True),
        ({"METRICS": 9, "OUT_x": 9}, {"METRICS": NOW - 600}, -700, False),
        ({}, {}, -500, False),
    ],
)
def test_copy_when_events_were_gone_before_they_were_read_then_is_whole_only_from_there_on(
    store: ValueStore,
    progress: dict[str, int],
    after_gap: dict[str, float],
    since: float | None,
    is_whole: bool,
) -> None:
    store.add([], progress, after_gap)

    assert store.is_whole(SOURCES, None if since is None else moment(since)) is is_whole


def test_copy_when_a_gap_is_older_than_what_is_kept_then_is_whole(store: ValueStore, clock: Clock) -> None:
    store.add([], {"METRICS": 9}, {"METRICS": NOW})
    before = store.is_whole({"METRICS": NOW}, None)

    clock.now += HOUR

    assert (before, store.is_whole({"METRICS": clock.now}, None)) == (False, True)


def test_copy_when_its_disk_is_full_then_is_not_whole_before_what_is_left(
    tmp_path: Path, clock: Clock
) -> None:
    small = again(tmp_path, clock, disk_mb=1)
    for minute in range(10):
        values = [value(100 * minute + at / 1000, float(minute)) for at in range(10_000)]
        small.add(values, {"METRICS": minute})
        clock.now += TRIM_INTERVAL_S

    small.add([], {"METRICS": 10})

    owner = {"METRICS": clock.now}
    assert (small.is_whole(owner, None), small.is_whole(owner, moment(540))) == (False, True)
    small.close()


def test_copy_when_its_file_is_of_before_sources_were_kept_then_is_not_whole(
    tmp_path: Path, clock: Clock, store: ValueStore
) -> None:
    store.add([value(0, 1.0)], {"METRICS": 7})
    store._disk._connection.execute("DROP TABLE sources")
    store.close()

    clock.now = time.time()
    later = again(tmp_path, clock)

    assert later.is_whole({"METRICS": clock.now}, None) is False
    assert later.is_whole({"METRICS": clock.now}, datetime.fromtimestamp(clock.now + 1, UTC)) is True
    later.close()


def test_sources_when_they_gave_nothing_for_as_long_as_values_are_kept_then_are_left_out(
    store: ValueStore, clock: Clock
) -> None:
    store.add([], {"OUT_x": 1})
    clock.now += HOUR + TRIM_INTERVAL_S
    store.add([], {"METRICS": 1})

    assert [*store.sources()] == ["METRICS"]


@pytest.mark.parametrize(
    ("share", "kept"), [(1.0, [0, 1, 2, 3, 4, 5]), (0.5, [0, 2, 4]), (0.4, [0, 2, 5]), (0.1, [0])]
)
def test_range_when_a_share_is_wanted_then_is_spread_evenly_and_no_less(
    store: ValueStore, share: float, kept: list[int]
) -> None:
    store.add([value(at, at) for at in range(6)])

    found = store.read(ValueSelection(wanted=Wanted.RANGE, limit=len(kept)), share)

    assert [number for _, number in found.series[0].points] == kept


def test_range_when_its_share_has_more_values_than_the_limit_then_is_refused(store: ValueStore) -> None:
    store.add([value(at, at) for at in range(9)])

    with pytest.raises(TowpathError):
        store.read(ValueSelection(wanted=Wanted.RANGE, limit=4), 0.5)


@pytest.mark.parametrize("table", ["series", "history"])
def test_store_when_a_table_is_damaged_then_a_new_file_begins(tmp_path: Path, table: str) -> None:
    path = tmp_path / "values.db"
    store = ValueStore("jfk", path, StorageSpec(enabled=True))
    store.add([StoredValue("node", "cpu", time.time(), 1.0, About())])
    store.close()
    with sqlite3.connect(path) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))

    again = ValueStore("jfk", path, StorageSpec(enabled=True))

    assert again.read(ValueSelection()).series == []
    assert path.with_name("values.db.damaged").exists()
    again.close()


def test_values_when_the_clock_was_ahead_then_are_forgotten_in_their_time(tmp_path: Path) -> None:
    clock = Clock()
    store = ValueStore("jfk", tmp_path / "values.db", StorageSpec(enabled=True, kept_h=1), clock)
    clock.now = NOW + 1e6 * HOUR
    store.add([])
    for hours in range(4):
        clock.now = NOW + hours * HOUR
        store.add([StoredValue("node", "cpu", clock.now, 1.0, About())])

    (series,) = store.read(ValueSelection(wanted=Wanted.RANGE)).series

    assert len(series.points) <= 2
    store.close()
