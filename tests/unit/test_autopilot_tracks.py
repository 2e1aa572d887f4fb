"""The autopilot asks sites for their positions once, and then for what is new."""

from __future__ import annotations

from typing import Any, cast

import pytest
from test_autopilot_coverage import ROUND_M, Bus

from towpath.autopilot.tracks import LATITUDE, ROUND_TRIP, TRACK_S, Tracks
from towpath.bus import Bus as MessageBus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.metrics import QueryMetrics, Series, SeriesList
from towpath.contracts.storage import QueryValues, ValueSeries, ValueSeriesList, Wanted
from towpath.placement.autopilot.coverage import Fix
from towpath.placement.autopilot.outlook import Cause, Window

MOST_POINTS = 8_000


class Mesh:
    """A bus, as its site and the collector tell of it."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.stores_values = True
        self.begins: list[float] = []
        """Times from which positions were asked for."""

    async def request(self, command: Any, **_: Any) -> Any:
        match command:
            case QueryValues():
                return ValueSeriesList(series=self._values(command))
            case QueryMetrics():
                return SeriesList(series=[self._round_trips(command)])
        raise AssertionError(command)

    def _values(self, command: QueryValues) -> list[ValueSeries]:
        if not self.stores_values:
            raise TowpathError(ErrorCode.NOT_ALLOWED, "this mesh stores no values")
        track = self.bus.track[-1:]
        if command.wanted is Wanted.RANGE:
            assert command.since is not None
            begin_s = command.since.timestamp()
            self.begins.append(begin_s)
            track = [fix for fix in self.bus.track if fix.at_s >= begin_s]
        if len(track) > MOST_POINTS:
            raise TowpathError(ErrorCode.INVALID, "too many values")
        return [
            ValueSeries(
                site="bus7",
                entity=entity,
                metric=metric,
                points=[(fix.at_s, fix.latitude if metric == LATITUDE else fix.longitude) for fix in track],
            )
            for metric in command.metrics
            for entity in ("node:bus7", "node:passenger")
        ]

    def _round_trips(self, command: QueryMetrics) -> Series:
        assert command.since is not None
        times = [fix.at_s for fix in self.bus.track if fix.at_s % 15 == 0]
        there = [at for at in times if not any(gap.begin_s <= at <= gap.end_s for gap in self.bus.gaps)]
        points = [(at, 0.1) for at in there if at >= command.since.timestamp()]
        return Series(site="bus7", entity="link:hub", metric=ROUND_TRIP, unit="s", points=points)


async def windows(tracks: Tracks, bus: Bus) -> list[Window]:
    return await tracks.windows(bus.now_s, 1_000)


async def test_vehicle_when_it_lost_its_link_on_its_last_round_then_is_expected_to_lose_it_again() -> None:
    bus = Bus()
    bus.drive(ROUND_M + 3_000)

    [window] = await windows(Tracks(cast("MessageBus", Mesh(bus))), bus)

    assert (window.site, window.cause) == ("bus7", Cause.COVERAGE)
    assert (window.from_s, window.to_s) == (pytest.approx(300, abs=30), pytest.approx(420, abs=30))


async def test_track_when_a_vehicle_tells_a_time_to_come_then_that_is_left_out() -> None:
    bus = Bus()
    bus.drive(ROUND_M + 3_000)
    bus.track.append(Fix(1e300, 0.0, 0.0))
    tracks = Tracks(cast("MessageBus", Mesh(bus)))

    found = [await windows(tracks, bus) for _ in range(2)]

    assert [len(each) for each in found] == [1, 1]


async def test_track_when_it_was_read_then_only_what_is_new_is_asked_for() -> None:
    bus = Bus()
    bus.drive(ROUND_M)
    mesh = Mesh(bus)
    tracks = Tracks(cast("MessageBus", mesh))
    await windows(tracks, bus)
    read_s = bus.now_s

    bus.drive(3_000)
    found = await windows(tracks, bus)

    assert mesh.begins == [read_s - TRACK_S, read_s]
    assert len(found) == 1


async def test_track_when_it_has_too_many_positions_then_less_of_it_is_asked_for() -> None:
    bus = Bus()
    bus.drive(45 * ROUND_M + 3_000)
    mesh = Mesh(bus)

    found = await windows(Tracks(cast("MessageBus", mesh)), bus)

    assert mesh.begins == [bus.now_s - TRACK_S, bus.now_s - TRACK_S / 4]
    assert len(found) == 1


async def test_windows_when_the_mesh_stores_no_values_then_there_are_none() -> None:
    bus = Bus()
    bus.drive(2 * ROUND_M)
    mesh = Mesh(bus)
    mesh.stores_values = False

    assert await windows(Tracks(cast("MessageBus", mesh)), bus) == []
