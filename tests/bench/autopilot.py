"""The autopilot over a year of three airports, beside never moving, a threshold, and full knowledge.

Without a mesh: three sites and a cloud in simulation, 1,095 days of edge sites. `autopilot_world.py` says
what is recorded, what is assumed and what is drawn; `autopilot_play.py`, how the truth is computed.

    .venv/bin/python tests/bench/autopilot.py [--quick]
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from autopilot_play import Outcome, Play, Strategy
from autopilot_strategies import (
    CONTENT_MIN,
    RULES,
    Autopilot,
    Exhaustive,
    Forecasting,
    Never,
    Oracle,
    Threshold,
)
from autopilot_world import AIRPORTS, BUSY, JOBS, World, world
from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh

DAYS = {Scale.QUICK: 20, Scale.DEFAULT: 365, Scale.FULL: 365}
NEVER, THRESHOLD, ORACLE = "never moving", "threshold", "knows the future"
POLICY = Exhaustive()
"""Shared, because it keeps its answers."""
STRATEGIES: dict[str, Callable[[World], Strategy]] = {
    NEVER: lambda _: Never(),
    THRESHOLD: lambda _: Threshold(),
    "autopilot": lambda world: Forecasting(world, POLICY),
    "autopilot, all stays": lambda world: Autopilot(world, POLICY),
    ORACLE: lambda world: Oracle(world, POLICY),
}
TO_NEVER, TO_ORACLE, MOVES = "/ never moving", "/ knows the future", "moves a site-day"
TARGETS = {
    "autopilot": {TO_NEVER: Target(at_most=0.1), TO_ORACLE: Target(at_most=3), MOVES: Target(at_most=4)}
}
NOTES = (
    f"departures of 2013 as load, each for half an hour; a site lacks cores in {BUSY:.0%} of the minutes",
    "weather of 2013 cuts uplinks: gusts above 40 mph or sight below half a mile, for 5 to 20 minutes",
    "failures of sites and a maintenance in each fortnight are drawn from a seed; one site is on solar power",
    "a job counts as late for the seconds of its move, too: 5 to 10",
    f"the autopilot looks every 5 minutes, and every {CONTENT_MIN} while all is well; 1 kJ is worth 1 "
    f"job-second to it, and its horizon is {RULES.horizon_s / 60:g} minutes",
    "'all stays' knows what is announced, and forecasts nothing; 'knows the future' knows all of it, "
    "but decides by the same rules, for the same horizon, energy included",
)


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Play all strategies in the same world."""
    measured.upright = True
    measured.notes += NOTES
    played = await asyncio.to_thread(world, DAYS[scale])
    outcomes: dict[str, Outcome] = {}
    for name, strategy in STRATEGIES.items():
        say(f"{name}, {DAYS[scale]} days")
        began = time.process_time()
        outcomes[name] = await asyncio.to_thread(Play(played, strategy(played)).run)
        figures = _figures(outcomes[name], played)
        figures["CPU, s"] = rounded(time.process_time() - began, 0)
        measured.cases.append(Case(name, figures, TARGETS.get(name, {})))
    # Ratios need the outcomes of all.
    for number, case in enumerate(measured.cases):
        late_s = sum(outcomes[case.name].late_s.values())
        ratios: dict[str, Value] = {
            title: rounded(late_s / max(sum(outcomes[other].late_s.values()), 1.0))
            for title, other in ((TO_NEVER, NEVER), (TO_ORACLE, ORACLE))
        }
        measured.cases[number] = replace(case, figures={**case.figures, **ratios})
    measured.raw = {"late_s": {name: outcome.late_s for name, outcome in outcomes.items()}}


def _figures(outcome: Outcome, played: World) -> dict[str, Value]:
    late_s = sum(outcome.late_s.values())
    site_days = len(AIRPORTS) * played.minutes / (24 * 60)
    return {
        "site-days": round(site_days),
        "goals broken, job-seconds": round(late_s),
        "… of job-time, %": rounded(100 * late_s / (60 * played.minutes * len(JOBS))),
        "moves": outcome.moves,
        MOVES: rounded(outcome.moves / site_days, 2),
        "moves of a job within 30 min of its last": outcome.returned,
        "moves that failed": outcome.refused,
        "energy, kJ": round(outcome.joules / 1e3),
        "over links, GB": rounded(outcome.link_bytes / 1e9, 1),
        "violations": outcome.spells,
        "… unforeseen": outcome.unforeseen,
    }


BENCHMARK = Benchmark(
    "autopilot", "The autopilot over a year of three airports, simulated", (), measure, on_request=True
)

if __name__ == "__main__":
    import run

    alone = replace(BENCHMARK, on_request=False)
    sys.exit(run.main(every={alone.name: alone}, program="autopilot.py", prefix="autopilot-"))
