"""Data placement in simulation: from which copies queries read, and copies that outlive their node.

Without a mesh, on one core: RAINBOW's evaluation of its storage fabric (D4.2), our figures beside the
reported ones. Where the source names no number, the docstrings say which is taken. Exit code 1 if the two
ways to place reads differ.

    .venv/bin/python tests/bench/data_placement.py [--quick | --full]
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from benchmark import Benchmark, Say, Scale
from data_placement_failures import READINGS, failure_case
from figures import Case, Measured, Value
from measured_mesh import MeasuredMesh
from numpy.typing import NDArray

from towpath.placement.data.limited_reads import limited_reads
from towpath.placement.data.query_reads import Candidate, ReadingQuery, Reads, Spout
from towpath.placement.data.read_placement import place_reads
from towpath.placement.data.sampling_ratios import sampling_ratios

SPOUTS = 10
LATENCY_MS = (0.1, 10.0)
BETA_MS = 1.0
LEAST_AVERAGE = 0.8
ZIPF = 3.0
"""Exponent of the factors of nodes. The source names none; with 3, one node in six is slow, most by a factor
of 2."""

RUNS = {Scale.QUICK: 100, Scale.DEFAULT: 4000, Scale.FULL: 10_000}
FAILURE_RUNS = {Scale.QUICK: 1, Scale.DEFAULT: 4, Scale.FULL: 20}
COMPARED_RUNS = 20
"""Runs of each setting that HiGHS places as well."""

PAYS, LESS_F, LESS_L = "replicas pay, % of runs", "F less, %", "L less, %"
MOST, MEAN, MEDIAN = "L less at most, %", "D/L mean", "D/L median"


@dataclass(frozen=True)
class Setting:
    """One case of the evaluation. Figures of L and F are over the runs in which replicas pay."""

    name: str
    nodes: int
    replicas: int
    reported: dict[str, Value]
    bottlenecks: bool = True


SETTINGS = (
    Setting("A", 25, 5, {PAYS: 4.4}),
    Setting("B", 25, 10, {PAYS: 12.2}),
    Setting("C", 50, 5, {PAYS: 4.6}),
    Setting("D", 50, 10, {PAYS: 9.2, LESS_F: 25.0, LESS_L: 73.42, MOST: 90}),
    Setting("E", 100, 5, {PAYS: 4.6}),
    Setting("F", 100, 10, {PAYS: 13.6, MEAN: 1.63, MEDIAN: 0.25}),
    Setting(
        "D, no bottlenecks",
        *(50, 10),
        {PAYS: 5.0, LESS_F: 15.06, LESS_L: 45.77},
        bottlenecks=False,
    ),
)


@dataclass
class Gains:
    """Gains of the runs of a setting in which replicas pay, against reading at the sources."""

    runs: int = 0
    less_f: list[float] = field(default_factory=list)
    less_l: list[float] = field(default_factory=list)
    less_sampled_l: list[float] = field(default_factory=list)
    staleness: list[float] = field(default_factory=list)
    """D/L."""
    copies: list[int] = field(default_factory=list)
    quality_losses: list[tuple[float, float]] = field(default_factory=list)
    """Largest share that sampling drops from a spout, at the sources and with replicas."""

    def add(self, sources: Reads, reads: Reads) -> None:
        """Count a run."""
        self.runs += 1
        f, source_f = reads.cost_ms2(BETA_MS), sources.cost_ms2(BETA_MS)
        if f >= source_f:
            return
        self.less_f.append(1 - f / source_f)
        self.less_l.append(1 - reads.latency_ms / sources.latency_ms)
        self.staleness.append(reads.staleness_ms / reads.latency_ms)
        self.copies.append(reads.copies)
        source_ratios, ratios = _ratios(sources), _ratios(reads)
        sampled_ms = reads.sampled_latency_ms(ratios)
        self.less_sampled_l.append(1 - sampled_ms / sources.sampled_latency_ms(source_ratios))
        self.quality_losses.append((1 - min(source_ratios), 1 - min(ratios)))

    def figures(self) -> dict[str, Value]:
        """Return the figures of the setting."""
        source_loss, loss = np.mean(self.quality_losses, axis=0) if self.quality_losses else (np.nan, np.nan)
        return {
            PAYS: round(100 * len(self.less_f) / self.runs, 1),
            LESS_F: _percent(self.less_f),
            LESS_L: _percent(self.less_l),
            "L less, sampled, %": _percent(self.less_sampled_l),
            MOST: round(100 * max(self.less_l, default=0.0), 1),
            MEAN: round(float(np.mean(self.staleness)), 2) if self.staleness else None,
            MEDIAN: round(float(np.median(self.staleness)), 2) if self.staleness else None,
            "copies of a run": round(float(np.mean(self.copies)), 1) if self.copies else None,
            "largest quality loss, %": _percent([loss]),
            "… at the sources": _percent([source_loss]),
        }


def any_query(chance: np.random.Generator, setting: Setting) -> ReadingQuery:
    """Return a query of ten spouts at ten nodes, all with bolts at another one.

    Latencies of pairs are uniform. A bottleneck is a node whose Zipf factor multiplies all its latencies; of
    a pair, the larger factor counts. The source does not say which nodes may hold a replica, nor what D is: a
    spout has from 1 to `replicas` candidates beside its source, drawn from all nodes but that of the bolts,
    and D is the latency from the source to the candidate.
    """
    latency_ms = _latencies(chance, setting)
    bolts, *sources = chance.permutation(setting.nodes)[: SPOUTS + 1].tolist()
    order = chance.random((SPOUTS, setting.nodes))
    order[:, bolts] = np.inf  # Last, so never among the first few.
    order[np.arange(SPOUTS), sources] = np.inf
    drawn = order.argsort(axis=1)
    counts = chance.integers(1, setting.replicas + 1, SPOUTS)
    spouts: list[Spout] = []
    for source, nodes, count in zip(sources, drawn.tolist(), counts.tolist(), strict=True):
        candidates = [Candidate(f"n{source}", float(latency_ms[source, bolts]), 0.0, takes_place=False)]
        candidates += [
            Candidate(
                f"n{node}", float(latency_ms[node, bolts]), float(latency_ms[source, node]), takes_place=True
            )
            for node in nodes[:count]
        ]
        spouts.append(Spout(f"s{source}", tuple(candidates)))
    places = {f"n{node}": setting.replicas for node in range(setting.nodes)}
    return ReadingQuery(tuple(spouts), BETA_MS, places)


def _latencies(chance: np.random.Generator, setting: Setting) -> NDArray[np.float64]:
    drawn = np.triu(chance.uniform(*LATENCY_MS, (setting.nodes, setting.nodes)), 1)
    latency_ms = drawn + drawn.T
    if not setting.bottlenecks:
        return latency_ms
    factors = chance.zipf(ZIPF, setting.nodes)
    return latency_ms * np.maximum.outer(factors, factors)


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Simulate the evaluation of query-driven placement, then that of stability-driven replication."""
    measured.upright = True
    measured.notes += [
        f"A to F: {RUNS[scale]:,} runs each (reported: 500), {SPOUTS} spouts, latency {LATENCY_MS}, "
        f"β = {BETA_MS:g}, average quality ≥ {LEAST_AVERAGE}, Zipf exponent of bottlenecks {ZIPF:g}",
        "means are over the runs in which replicas pay; ms are processor time for one decision",
        f"{COMPARED_RUNS} runs of each case are placed by HiGHS, too, and must have the same F",
        f"failures: means over {FAILURE_RUNS[scale]} runs; a step is 1 s or one round of half an hour",
    ]
    for setting in SETTINGS:
        say(f"{setting.name}: {setting.nodes} nodes, {setting.replicas} replicas")
        measured.cases.append(await asyncio.to_thread(_reads_case, setting, RUNS[scale]))
    for reading in READINGS:
        say(reading.name)
        measured.cases.append(await asyncio.to_thread(failure_case, reading, FAILURE_RUNS[scale]))


def _reads_case(setting: Setting, runs: int) -> Case:
    chance = np.random.default_rng(0)
    gains, differ = Gains(), 0
    enumerating_s: list[float] = []
    solving_s: list[float] = []
    for number in range(runs):
        query = any_query(chance, setting)
        began = time.process_time()
        reads = place_reads(query)
        enumerating_s.append(time.process_time() - began)
        assert reads is not None  # Sources take no place.
        gains.add(Reads(tuple(spout.candidates[0] for spout in query.spouts)), reads)
        if number < COMPARED_RUNS:
            began = time.process_time()
            differ += _differ(query, reads)
            solving_s.append(time.process_time() - began)
    figures = {
        "nodes": setting.nodes,
        "replicas": setting.replicas,
        **_beside(gains.figures(), setting.reported),
        "ms, enumerated": round(1000 * float(np.mean(enumerating_s)), 2),
        "ms, HiGHS": round(1000 * float(np.mean(solving_s)), 1),
    }
    return Case(setting.name, figures, faults=differ)


def _differ(query: ReadingQuery, reads: Reads) -> bool:
    solved = limited_reads(query)
    return solved is None or solved.cost_ms2(BETA_MS) != reads.cost_ms2(BETA_MS)


def _beside(figures: dict[str, Value], reported: dict[str, Value]) -> dict[str, Value]:
    """Return the figures, those that the source has with its own below them."""
    everywhere = {title for setting in SETTINGS for title in setting.reported}
    rows: dict[str, Value] = {}
    for title, value in figures.items():
        rows[title] = value
        if title in everywhere:
            rows[f"… reported: {title}"] = reported.get(title)
    return rows


def _ratios(reads: Reads) -> tuple[float, ...]:
    return sampling_ratios([one.latency_ms for one in reads.chosen], LEAST_AVERAGE)


def _percent(shares: Sequence[float]) -> float | None:
    return round(100 * float(np.mean(shares)), 1) if len(shares) and np.isfinite(shares).all() else None


BENCHMARK = Benchmark(
    "data-placement", "Data placement beside RAINBOW's figures, simulated", (), measure, on_request=True
)

if __name__ == "__main__":
    import run

    alone = replace(BENCHMARK, on_request=False)
    sys.exit(run.main(every={alone.name: alone}, program="data_placement.py", prefix="data-placement-"))
