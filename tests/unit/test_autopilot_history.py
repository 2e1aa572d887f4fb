"""History for forecasts: what an autopilot that has just started learns from the sites' samples."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from test_mesh_view import SITES, courses, job

from towpath.autopilot.history import CHARGE, RATE, History
from towpath.composition.measurements import Measurements
from towpath.composition.mesh_view import picture
from towpath.contracts.metrics import QueryMetrics, Sample, Series, SeriesList
from towpath.contracts.site import PowerSpec, SiteSpec
from towpath.placement.autopilot.forecasts import empty_in_s, forecast_rates
from towpath.placement.data.node_history import DAY_S
from towpath.telemetry.metric_store import MetricStore

NOW_S = 30 * DAY_S + 8 * 3600.0
"""Eight in the morning."""

POWERED = [SiteSpec(name="jfk", power=PowerSpec(battery=True)), SITES[1]]
VIEW = picture(POWERED, [job("clean"), job("mean", "clean")], {}, Measurements([]), NOW_S).view
[SOURCE] = VIEW.source


class Mesh:
    """The samples of a site where 10 events/s come, and 100 from eight to nine each morning."""

    def __init__(self, path: Path) -> None:
        self.store = MetricStore(path, clock=lambda: NOW_S)
        self.asked: list[QueryMetrics] = []
        minutes = [NOW_S - 60.0 * ago for ago in range(2 * 1440, 0, -1)]
        samples = [
            Sample(entity="job:clean", metric=RATE, at=at, value=100.0 if at % DAY_S // 3600 == 8 else 10.0)
            for at in minutes
        ]
        charges = [(at, 0.5 + 0.01 * (NOW_S - at) / 60) for at in minutes[-30:]]
        samples += [Sample(entity="site", metric=CHARGE, at=at, value=value) for at, value in charges]
        self.store.add(samples)

    async def query(self, command: QueryMetrics) -> SeriesList:
        self.asked.append(command)
        return SeriesList(series=self.store.read(command, "jfk"))


async def test_history_when_an_autopilot_has_just_started_then_tomorrow_is_expected_like_yesterday(
    tmp_path: Path,
) -> None:
    mesh = Mesh(tmp_path / "metrics.db")

    rates, charges = await History(mesh.query, step_s=60).read(VIEW, NOW_S)

    assert forecast_rates(rates[SOURCE], NOW_S, 60, 10, DAY_S).mean[-1] > 70
    assert forecast_rates(rates[SOURCE][-100:], NOW_S, 60, 10, DAY_S).mean[-1] < 20
    assert empty_in_s(charges["jfk"][:-1], NOW_S) == pytest.approx(50 * 60, rel=0.05)


async def test_history_when_read_again_soon_then_days_are_not_asked_for_again(tmp_path: Path) -> None:
    mesh = Mesh(tmp_path / "metrics.db")
    history = History(mesh.query, step_s=60)

    first, again = [await history.read(VIEW, NOW_S + at_s) for at_s in (0, 5)]

    asked_s = [(each.until - each.since).total_seconds() for each in mesh.asked if each.until and each.since]
    assert asked_s == [3 * DAY_S, 7200, 7200 - 5]
    assert len(first[0][SOURCE]) == len(again[0][SOURCE]) == 2 * 1440


async def test_history_when_days_are_not_answered_then_later_looks_go_on_without(tmp_path: Path) -> None:
    mesh = Mesh(tmp_path / "metrics.db")

    async def query(command: QueryMetrics) -> SeriesList:
        if command.since == datetime.fromtimestamp(NOW_S - 3 * DAY_S, UTC):
            raise TimeoutError
        return await mesh.query(command)

    history = History(query, step_s=60)
    with pytest.raises(TimeoutError):
        await history.read(VIEW, NOW_S)
    rates, _ = await history.read(VIEW, NOW_S)

    assert len(rates[SOURCE]) == 120


def test_rate_of_a_source_when_a_backlog_grows_then_more_comes_than_is_read() -> None:
    names = ("jfk, job:clean, job.event_rate", "jfk, job:clean, job.backlog")
    series = courses(**dict(zip(names, ([50.0, 50.0, 50.0], [0.0, 0.0, 200.0]), strict=True)))

    assert [*Measurements(series).source_rates(VIEW)[SOURCE].values()] == [50, 70]


def test_rate_of_a_source_when_two_values_are_of_one_moment_then_its_backlog_is_left_out() -> None:
    names = ("job.event_rate", "job.backlog")
    series = [
        Series(site="jfk", entity="job:clean", metric=name, unit="1", points=[(7.0, 50.0), (7.0, 50.0)])
        for name in names
    ]

    assert Measurements(series).source_rates(VIEW)[SOURCE] == {7.0: 50}
