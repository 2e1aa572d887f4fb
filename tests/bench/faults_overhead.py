"""Cost of rules for a job at full load: settings by turns, on one running query.

A windowed count works off a backlog, so that each event's cost shows as throughput. Rules are loaded and
unloaded without a restart; each round goes through all settings, in another order. A second engine of the
same mesh, whose processes know of no rules at all, works off the same load by turns with the first.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from benchmark import Benchmark, Say, Scale
from busy_engine import Engine, Turn, by_turns, deployed, settled
from faults_pictures import draw_distributions
from faults_ratios import Ratio, dearer
from faults_usage import cores, memory, watched
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh

from towpath.contracts.fault_commands import LoadRules, UnloadRules
from towpath.contracts.faults import Rule
from towpath.contracts.site import EngineSpec, SiteSpec
from towpath.mesh import lifecycle

ENGINE = EngineSpec(spark_master="local[2]")
ARMED = SiteSpec(name="armed", engine=ENGINE)
BARE = SiteSpec(name="bare", engine=ENGINE)
"""Its processes have no TOWPATH_HOOKS: see `without_faults/sitecustomize.py`."""

SETTLE_S = 1.0
"""Pause after a change of rules."""

RULES_S = 30.0

NONE, TEXT, FIELD, EMIT, LOOKING, UNAWARE = (
    "no rules",
    "text condition, never true",
    "field condition, never true",
    "emit every 1000th",
    "looking for rules, there are none",
    "no TOWPATH_HOOKS",
)
COST, THROUGHPUT = "CPU µs an event", "events/s"
MORE_CPU, SLOWER = "more CPU, %", "slower, %"

NEVER: dict[str, Any] = {"fault": "delay", "parameters": {"ms": 1}}


def rule(
    name: str, event: dict[str, Any], condition: str, action: dict[str, Any] = NEVER, **how: Any
) -> Rule:
    """A rule at the site with the rules."""
    given = {"name": name, "event": event, "condition": condition, "actions": [action], **how}
    return Rule.model_validate({**given, "where": {"site": ARMED.name}})


SETTINGS: Mapping[str, Rule | None] = {
    NONE: None,
    TEXT: rule("never-text", {"point": "source.read"}, 'payload.startsWith("t_p")'),
    FIELD: rule("never-field", {"point": "operator.event"}, "event.value > 1000000"),
    EMIT: rule(
        "emit",
        {"point": "source.read"},
        "true",
        {"fault": "emit", "parameters": {"metric": "seen_events", "value": "serial"}},
        every=1000,
    ),
}
TARGETS = {
    TEXT: {SLOWER: Target(at_most=3.0), MORE_CPU: Target(at_most=3.0)},
}


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure both engines by turns, then the settings by turns on one."""
    assert mesh is not None
    rounds, seconds = {Scale.QUICK: (3, 4.0), Scale.DEFAULT: (12, 5.0), Scale.FULL: (40, 6.0)}[scale]
    pids = await _engines(mesh)
    async with watched(pids[ARMED.name]) as armed, watched(pids[BARE.name]) as bare:
        engines = [await deployed(mesh, site, samples) for site, samples in ((ARMED, armed), (BARE, bare))]
        for engine in engines:
            await settled(engine, say)
        by_setting = dict(zip((LOOKING, UNAWARE), engines, strict=True))
        await by_turns(by_setting, rounds, seconds, say, "with and without looking for rules")
        await _settings(mesh, engines[0], rounds, seconds, say)
        for engine in engines:
            await mesh.remove(engine.job)
    _report(measured, *engines)


async def _engines(mesh: MeasuredMesh) -> dict[str, int]:
    """Site → pid of its engine."""
    listed = await asyncio.to_thread(lifecycle.processes, mesh.home)
    names = {f"{site.name}-engine": site.name for site in (ARMED, BARE)}
    return {names[p.name]: p.pid for p in listed if p.name in names and p.pid is not None}


async def _settings(mesh: MeasuredMesh, engine: Engine, rounds: int, seconds: float, say: Say) -> None:
    for number in range(rounds):
        say(f"rules by turns, round {number + 1} of {rounds}")
        await engine.provide(len(SETTINGS) * (seconds + SETTLE_S + 1.0))
        for setting in random.Random(number).sample(list(SETTINGS), len(SETTINGS)):
            wanted = SETTINGS[setting]
            if wanted is not None:
                await mesh.bus.request(LoadRules(rules=[wanted], lease_s=120.0), deadline_s=RULES_S)
            await asyncio.sleep(SETTLE_S)
            await engine.turn(setting, seconds)
            await mesh.bus.request(UnloadRules(), deadline_s=RULES_S)
    await engine.idle()


def _report(measured: Measured, armed: Engine, bare: Engine) -> None:
    turns = {**armed.turns, **bare.turns}
    limit = {SLOWER: Target(at_most=1.0), MORE_CPU: Target(at_most=1.0)}
    _case(measured, turns, UNAWARE, None, {})
    _case(measured, turns, LOOKING, UNAWARE, limit)
    for setting in SETTINGS:
        _case(measured, turns, setting, None if setting == NONE else NONE, TARGETS.get(setting, {}))
    measured.notes += [
        "throughput and CPU of a windowed count with a backlog; CPU of the engine with all its processes; "
        "ratios are medians over rounds, intervals 95 %, by bootstrap over rounds",
        f"'{LOOKING}' against '{UNAWARE}': two engines, by turns; all others: one query, by turns",
    ]
    for name, unit, values in (("cpu", "cores used", cores), ("memory", "resident memory, MB", memory)):
        found = {
            setting: [
                value
                for turn in of
                for value in values((bare if setting == UNAWARE else armed).samples, turn.begin, turn.end)
            ]
            for setting, of in turns.items()
        }
        measured.raw[f"{name} samples"] = {k: [round(v, 3) for v in each] for k, each in found.items()}
        title = f"An engine with and without rules: {unit}"
        measured.pictures[name] = partial(draw_distributions, title=title, unit=unit, values=found)
    measured.raw["turns"] = {setting: [vars(turn) for turn in of] for setting, of in turns.items()}


def _case(
    measured: Measured,
    turns: Mapping[str, Sequence[Turn]],
    setting: str,
    than: str | None,
    targets: Mapping[str, Target],
) -> None:
    mine = turns[setting]
    figures: dict[str, Value] = {
        THROUGHPUT: rounded(sum(t.events for t in mine) / sum(t.end - t.begin for t in mine), 0),
        COST: rounded(1e6 * fmean(turn.cpu_s_per_event for turn in mine), 2),
        "rounds": len(mine),
    }
    if than is not None:
        slower = dearer([t.s_per_event for t in mine], [t.s_per_event for t in turns[than]])
        more = dearer([t.cpu_s_per_event for t in mine], [t.cpu_s_per_event for t in turns[than]])
        figures |= _ratio(SLOWER, slower) | _ratio(MORE_CPU, more)
    measured.cases.append(Case(setting, figures, targets))


def _ratio(title: str, ratio: Ratio) -> dict[str, Value]:
    return {title: round(ratio.percent, 2), f"{title}: 95 %": f"{ratio.low:+.2f} … {ratio.high:+.2f}"}


BENCHMARK = Benchmark("overhead", "what rules cost a busy job", (ARMED, BARE), measure)
