"""What rules cost a job that is as busy as it can be: settings by turns, on one running query.

A windowed count works off a backlog, so that each event's cost shows as throughput. Rules are loaded and
unloaded without a restart; each round goes through all settings, in another order. A second engine of the
same mesh, whose processes know of no rules at all, works off the same load by turns with the first.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

from benchmark import Benchmark, Say, Scale
from faults_pictures import draw_distributions
from faults_ratios import Ratio, dearer
from faults_usage import Sample, cores, cpu_between, memory, watched
from figures import Case, Measured, Target, Value, rounded
from load_process import send
from measured_mesh import MeasuredMesh, until
from windowed import counting

from towpath.contracts.faults import LoadRules, Rule, UnloadRules
from towpath.contracts.job import JobSpec
from towpath.contracts.site import EngineSpec, SiteSpec
from towpath.mesh import lifecycle

ENGINE = EngineSpec(spark_master="local[2]")
ARMED = SiteSpec(name="armed", engine=ENGINE)
BARE = SiteSpec(name="bare", engine=ENGINE)
"""Its processes have no TOWPATH_FAULTS: see `without_faults/sitecustomize.py`."""

BATCH = 10_000
"""Events of a micro-batch: some in each setting of each round."""

BACKLOG = 60_000
"""Events that wait, at least, whenever something is measured."""

WARM_UP = 150_000
"""Events. The first micro-batches compile and start workers; the last third says how fast the job is."""

MARGIN = 1.5
"""How much faster than it was a job may become, and still have a backlog."""

SETTLE_S = 1.0
"""After rules have changed."""

LOOK_S, LOAD_S, RULES_S = 0.2, 120.0, 30.0

NONE, TEXT, FIELD, CODE, EMIT, LOOKING, UNAWARE = (
    "no rules",
    "text condition, never true",
    "field condition, never true",
    "code point, never true",
    "emit every 1000th",
    "looking for rules, there are none",
    "no TOWPATH_FAULTS",
)
COST, THROUGHPUT = "CPU µs an event", "events/s"
MORE_CPU, SLOWER = "more CPU, %", "slower, %"

NEVER: dict[str, Any] = {"fault": "delay", "parameters": {"ms": 1}}


def rule(name: str, event: dict[str, Any], condition: str, action: dict[str, Any] = NEVER) -> Rule:
    """A rule at the site with the rules."""
    given = {"name": name, "event": event, "condition": condition, "actions": [action]}
    return Rule.model_validate({**given, "where": {"site": ARMED.name}})


SETTINGS: Mapping[str, Rule | None] = {
    NONE: None,
    TEXT: rule("never-text", {"point": "source.read"}, 'payload startswith "t_p"'),
    FIELD: rule("never-field", {"point": "operator.event"}, "event.value > 1000000"),
    CODE: rule(
        "never-code",
        {"code": "towpath.streams.source:as_record_batch", "at": "exit"},
        "args.messages == 1",
    ),
    EMIT: rule(
        "emit",
        {"point": "source.read"},
        "every 1000",
        {"fault": "emit", "parameters": {"metric": "seen_events", "value": "serial"}},
    ),
}
TARGETS = {
    TEXT: {SLOWER: Target(at_most=3.0), MORE_CPU: Target(at_most=3.0)},
    CODE: {SLOWER: Target(at_most=3.0), MORE_CPU: Target(at_most=3.0)},
}


@dataclass(frozen=True)
class Turn:
    """One setting in one round."""

    begin: float
    """Unix seconds: a micro-batch was committed."""
    end: float
    events: int
    cpu_s: float

    @property
    def s_per_event(self) -> float:
        """Seconds for each event."""
        return (self.end - self.begin) / self.events

    @property
    def cpu_s_per_event(self) -> float:
        """CPU seconds of the engine with all its processes, for each event."""
        return self.cpu_s / self.events


@dataclass
class Engine:
    """A site's engine under measurement, with its one job."""

    mesh: MeasuredMesh
    job: JobSpec
    samples: list[Sample]
    rate: float = 0.0
    """Events per second, as last seen."""
    turns: defaultdict[str, list[Turn]] = field(default_factory=lambda: defaultdict(list))

    async def provide(self, seconds: float) -> None:
        """Have a backlog for so many seconds. Raises `LoadFailed`, `TimeoutError`."""
        waiting = await self.mesh.last_serial(self.job.site) - await self.mesh.processed(self.job)
        await self.send(int(seconds * MARGIN * self.rate) + BACKLOG - waiting)

    async def send(self, events: int) -> None:
        """Store more events. Raises `LoadFailed`, `TimeoutError`."""
        if events > 0:
            await send(self.mesh.load_spec(self.job.site, events=events, connections=2), LOAD_S)

    async def turn(self, setting: str, seconds: float) -> None:
        """Measure for so long, from one committed micro-batch to another."""
        seen: list[tuple[float, int]] = []
        begin = time.time()
        while time.time() < begin + seconds:
            status = await self.mesh.status(self.job)
            if status is not None and status.committed_at is not None:
                at = status.committed_at.timestamp()
                if at >= begin and (not seen or at > seen[-1][0]):
                    seen.append((at, max(status.serials.values())))
            await asyncio.sleep(LOOK_S)
        if len(seen) < 2:
            raise RuntimeError(f"{setting}: {len(seen)} micro-batches in {seconds:g} s")
        (first, after), (last, through) = seen[0], seen[-1]
        used = cpu_between(self.samples, first, last)
        self.rate = (through - after) / (last - first)
        self.turns[setting].append(Turn(first, last, through - after, used))

    async def idle(self) -> None:
        """Wait until the backlog is gone. Raises `NotInTime`."""
        await _processed(self, await self.mesh.last_serial(self.job.site))


async def _processed(engine: Engine, serial: int) -> None:
    async def done() -> bool:
        return await engine.mesh.processed(engine.job) >= serial

    await until(done, LOAD_S, f"{engine.job.name} at {serial}")


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Both engines by turns, then the settings by turns on one."""
    assert mesh is not None
    rounds, seconds = {Scale.QUICK: (3, 4.0), Scale.DEFAULT: (12, 5.0), Scale.FULL: (40, 6.0)}[scale]
    pids = await _engines(mesh)
    async with watched(pids[ARMED.name]) as armed, watched(pids[BARE.name]) as bare:
        engines = [await _deployed(mesh, site, samples) for site, samples in ((ARMED, armed), (BARE, bare))]
        for engine in engines:
            await _settled(engine, say)
        await _by_turns(engines, rounds, seconds, say)
        await _settings(mesh, engines[0], rounds, seconds, say)
        for engine in engines:
            await mesh.remove(engine.job)
    _report(measured, *engines)


async def _engines(mesh: MeasuredMesh) -> dict[str, int]:
    """Site → pid of its engine."""
    listed = await asyncio.to_thread(lifecycle.processes, mesh.home)
    names = {f"{site.name}-engine": site.name for site in (ARMED, BARE)}
    return {names[p.name]: p.pid for p in listed if p.name in names and p.pid is not None}


async def _deployed(mesh: MeasuredMesh, site: SiteSpec, samples: list[Sample]) -> Engine:
    after = await mesh.last_serial(site.name)
    job = await mesh.job(
        "counted", site.name, counting(1.0), after=after, trigger_s=0.0, max_events_per_batch=BATCH
    )
    return Engine(mesh, job, samples)


async def _settled(engine: Engine, say: Say) -> None:
    """The first micro-batches compile and start workers: they are not measured."""
    say(f"{engine.job.site}: warming up")
    begin = await engine.mesh.last_serial(engine.job.site)
    await engine.send(WARM_UP)
    await _processed(engine, begin + WARM_UP * 2 // 3)
    begun = time.monotonic()
    await engine.idle()
    engine.rate = WARM_UP / 3 / (time.monotonic() - begun)
    say(f"{engine.job.site}: about {engine.rate:,.0f} events/s")


async def _by_turns(engines: Sequence[Engine], rounds: int, seconds: float, say: Say) -> None:
    """No rules anywhere; one engine looks for some, the other does not."""
    for number in range(rounds):
        say(f"with and without looking for rules, round {number + 1} of {rounds}")
        for engine in random.Random(number).sample(list(engines), len(engines)):
            await engine.provide(seconds)
            await engine.turn(UNAWARE if engine.job.site == BARE.name else LOOKING, seconds)
            await engine.idle()


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
        "ratios are geometric means over rounds, intervals 95 %, by bootstrap over rounds",
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
