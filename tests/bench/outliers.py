"""Outliers of a sliding window: values per second of one core, beside comparing all pairs.

Without Spark and a mesh. Exit code 1 if two algorithms differ; a target that is not met does not change it.

    .venv/bin/python tests/bench/outliers.py [--quick]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import run
from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target, Value
from measured_mesh import MeasuredMesh
from numpy.typing import NDArray

from towpath.outliers.algorithms import ALGORITHMS, DEFAULT
from towpath.outliers.detection import Outlier, OutlierDetector

sys.path.append(str(Path(__file__).parents[1]))

from running.outliers import delays, neighbours

K, R, WINDOW = 50, 0.5, 10_000
SLIDE = 500
SLIDES = (SLIDE, 83, 1)
"""83 of 10,000 values are those of 5 seconds of 10 minutes."""

RATE, FACTOR = "values/s", "× all pairs"
TARGETS = {RATE: Target(at_least=20_000), FACTOR: Target(at_least=20)}

Floats = NDArray[np.float64]


def levels(chance: np.random.Generator, count: int) -> Floats:
    """Noise around a level that changes every 2,000 values, with a spike in each 200."""
    level = np.repeat(chance.normal(20, 5, count // 2000 + 1), 2000)[:count]
    values = level + chance.normal(0, 0.3, count)
    return values + (chance.random(count) < 0.005) * chance.normal(0, 20, count)


def drift(chance: np.random.Generator, count: int) -> Floats:
    """A random walk: micro-clusters come and go all the time."""
    return np.cumsum(chance.normal(0, 0.3, count))


def gridded_delays(chance: np.random.Generator, count: int) -> Floats:
    """Departure delays in units of 10 minutes: a dense grid with a long tail."""
    return np.array(delays(count)) / 10


def sparse(chance: np.random.Generator, count: int) -> Floats:
    """Evenly spread: about K values in each R. Micro-clusters only just form, and soon dissolve."""
    return chance.uniform(0, WINDOW * R / K, count)


def alone(chance: np.random.Generator, count: int) -> Floats:
    """Evenly spread so widely that each value is an outlier: 20 results for each value that arrives."""
    return chance.uniform(0, 10 * WINDOW * R / K, count)


SERIES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "levels and spikes": levels,
    "drift": drift,
    "delays of 2013": gridded_delays,
    "sparse": sparse,
    "all are outliers": alone,
}
WITHOUT_TARGET = "all are outliers"


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure each algorithm on each series; the largest slides have targets."""
    measured.notes.append(
        f"window {WINDOW:,}, K = {K}, R = {R}; seconds of CPU, the median of "
        f"{repetitions(scale)} runs; the default is {DEFAULT}; saved and restored: with the next slide of "
        f"{SLIDE} values"
    )
    say("all pairs")
    all_pairs_s = await asyncio.to_thread(_all_pairs, 1000 if scale is Scale.QUICK else WINDOW)
    for name, series in SERIES.items():
        values = series(np.random.default_rng(0), 2 * WINDOW).tolist()
        for slide in SLIDES:
            say(f"{name}, slides of {slide}")
            seen: list[list[Outlier]] = []
            for algorithm, detector in ALGORITHMS.items():
                figures, found = await asyncio.to_thread(
                    _figures, detector, values, slide, scale, all_pairs_s
                )
                seen.append([one._replace(cluster_distance=None) for one in found])
                targets = TARGETS if slide == SLIDE and name != WITHOUT_TARGET else {}
                differ = 0 if seen[-1] == seen[0] else 1
                case = f"{algorithm}, {name}, slide {slide}"
                measured.cases.append(Case(case, figures, targets, faults=differ))


def repetitions(scale: Scale) -> int:
    """Return how often a measurement is repeated."""
    return 1 if scale is Scale.QUICK else 5


def _all_pairs(window: int) -> float:
    """Return the seconds in which all pairs of a full window are compared, the least of three runs."""
    values = levels(np.random.default_rng(0), WINDOW)[:window].tolist()
    seconds = []
    for _ in range(1 if window == WINDOW else 3):
        began = time.process_time()
        neighbours(values, R)
        seconds.append(time.process_time() - began)
    return min(seconds) * (WINDOW / window) ** 2


def _figures(
    algorithm: type[OutlierDetector], values: list[float], slide: int, scale: Scale, all_pairs_s: float
) -> tuple[dict[str, Value], list[Outlier]]:
    """Return the figures of one series, and the outliers at its end."""
    slides = min(20, 10 if scale is Scale.QUICK else WINDOW // slide)
    seconds: list[float] = []
    for _ in range(repetitions(scale)):
        detector = algorithm(K, R)
        detector.slide(values[:WINDOW])
        began = time.process_time()
        found: list[Outlier] = []
        for begin in range(WINDOW, WINDOW + slides * slide, slide):
            found = detector.slide(values[begin : begin + slide], slide)
        seconds.append((time.process_time() - began) / slides)
    needed = statistics.median(seconds)
    began = time.process_time()
    saved = detector.saved()
    moved = algorithm(K, R)
    moved.restore(saved)
    moved.slide(values[:SLIDE], SLIDE)
    figures: dict[str, Value] = {
        RATE: round(slide / needed),
        "ms a slide": round(1000 * needed, 2),
        FACTOR: round(all_pairs_s / needed),
        "outliers": len(found),
        "state, bytes": sum(len(part) for part in saved if isinstance(part, bytes)),
        "saved and restored ms": round(1000 * (time.process_time() - began), 1),
    }
    return figures, found


BENCHMARK = Benchmark("outliers", "Outliers of a sliding window, one core", (), measure)

if __name__ == "__main__":
    sys.exit(run.main(every={BENCHMARK.name: BENCHMARK}, program="outliers.py", prefix="outliers-"))
