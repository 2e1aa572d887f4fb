"""Migrations with the strategy `general` under load: the grid of the thesis, rates × window sizes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from benchmark import CLOUD, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, rounded
from load_process import Load, load, send
from measured_mesh import MeasuredMesh, until
from verdicts import Windows, judge_windows, window_results, window_truth
from windowed import counting

from towpath.contracts.commands import OperationState, OperationView
from towpath.contracts.job import JobSpec

DOWNTIME, TOTAL = "downtime, s", "total, s"
TARGETS = {DOWNTIME: Target(at_most=3.0), TOTAL: Target(at_most=8.0)}

GRID = {
    Scale.QUICK: ((4_000,), (10,)),
    Scale.DEFAULT: ((4_000, 20_000), (10, 400)),
    Scale.FULL: ((4_000, 8_000, 12_000, 16_000, 20_000), (10, 50, 100, 400)),
}
"""Events per second, and window sizes in seconds."""

TRIGGER_S = 1.0
WATERMARK_S = 10.0
"""Covers the disorder between the generator's connections."""

SETTLE_EVENTS_S = 3.0
"""Seconds' worth of events that the job processes before it moves, and may be behind when it moves back."""

CATCH_UP_S = 180.0
CLOSE_S = 120.0
CONNECTION_RATE = 5_000


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure each point of the grid: jfk → cloud and back while events come."""
    assert mesh is not None
    measured.notes += [
        "downtime: last input processed at the source → first one at the target, less the trigger (1 s); "
        "the thesis reports 14.3–24.3 s",
        "windows lie in the time that events carry, so that one event closes all of them in the end: every "
        "count of every window is compared with IN",
    ]
    rates, sizes = GRID[scale]
    for rate, size_s in product(rates, sizes):
        say(f"{rate:,}/s, windows of {size_s} s")
        await _Point(mesh, rate, float(size_s)).measure(measured)


@dataclass
class _Point:
    """One point of the grid."""

    mesh: MeasuredMesh
    rate: int
    size_s: float

    async def measure(self, measured: Measured) -> None:
        mesh, site = self.mesh, EDGE.name
        after = await mesh.last_serial(site)
        operator = counting(self.size_s, own_time=True, watermark_s=WATERMARK_S)
        job = await mesh.job("general", site, operator, after=after, trigger_s=TRIGGER_S)
        spec = mesh.load_spec(site, rate=float(self.rate), connections=max(1, self.rate // CONNECTION_RATE))
        async with load(spec) as running:
            moves = await self._there_and_back(job, running)
        verdict = await self._verdict(job, after)
        await mesh.remove(job)
        measured.cases += self._cases(moves, verdict)

    async def _there_and_back(self, job: JobSpec, running: Load) -> list[OperationView]:
        moves: list[OperationView] = []
        for to in (CLOUD.name, EDGE.name):
            await self._caught_up(job)
            moves.append(await self.mesh.migrate(job, to))
        await self._caught_up(job)
        await running.stop()
        return moves

    async def _caught_up(self, job: JobSpec) -> None:
        """Wait until the job has processed new events since now, and is not far behind."""
        worth = int(SETTLE_EVENTS_S * self.rate)
        begun = await self.mesh.last_serial(EDGE.name)

        async def fresh() -> bool:
            last = await self.mesh.last_serial(EDGE.name)
            done = await self.mesh.processed(job)
            return done >= begun + worth and done >= last - worth

        await until(fresh, CATCH_UP_S, f"{job.name} within {worth} events of the newest")

    async def _verdict(self, job: JobSpec, after: int) -> Windows:
        """Close all windows and compare them with what was stored."""
        ahead_s = 10 * self.size_s + 100 * WATERMARK_S
        await send(self.mesh.load_spec(EDGE.name, events=1, ahead_s=ahead_s), CLOSE_S)
        through = await self.mesh.last_serial(EDGE.name)
        truth = await window_truth(self.mesh, EDGE.name, after, through, self.size_s, by_own_time=True)
        await self.mesh.counted(job, len(truth), CLOSE_S)  # What has not come by then is lost.
        return judge_windows(truth, await window_results(self.mesh, job))

    def _cases(self, moves: list[OperationView], verdict: Windows) -> list[Case]:
        point = f"{self.rate:,}/s × {self.size_s:.0f} s"
        return [
            Case(
                f"{point}, {_way(move)}",
                {**migration_figures(move), **_completeness(verdict)},
                TARGETS,
                faults,
            )
            for move, faults in zip(moves, (verdict.faults, 0), strict=True)
        ]


def _way(move: OperationView) -> str:
    return f"{move.source} → {move.target}"


def migration_figures(move: OperationView) -> dict[str, float | int | str | None]:
    """Return a migration's cost by the operation's own figures. Raises `RuntimeError` unless it completed."""
    if move.state is not OperationState.COMPLETED or move.figures is None:
        raise RuntimeError(f"migration {move.operation} is {move.state}: {move.note}")
    downtime_s, total_s = move.figures.downtime_s, move.figures.total_s
    return {
        TOTAL: rounded(total_s),
        DOWNTIME: rounded(downtime_s),
        "downtime ÷ total": None if downtime_s is None else rounded(downtime_s / total_s, 2),
        "state, bytes": move.figures.state_bytes,
    }


def _completeness(verdict: Windows) -> dict[str, float | int | str | None]:
    return {
        "events": verdict.events,
        "counted": verdict.counted,
        "windows lost": verdict.lost,
        "repeated": verdict.duplicated,
        "wrong": verdict.wrong,
    }


BENCHMARK = Benchmark("general", "migrations with state under load", (EDGE, CLOUD), measure)
