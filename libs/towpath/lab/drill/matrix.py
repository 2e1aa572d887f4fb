"""The matrix of drills: steps of operations, faults, whom they hit, and which combinations make sense."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise, takewhile
from typing import Any, Final
from zlib import crc32

from towpath.contracts.autopilot import AutopilotMode
from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import Durability
from towpath.protocols.operations.update import open_output
from towpath.protocols.step import Actor, Step
from towpath.protocols.table import StepTable, Strategy, tables

RECOVERED_WITHIN_S = 30.0
"""Seconds after the fault's end within which results must flow again, by default."""

OUTAGE_S = 10.0
"""Seconds for which a fault lasts that is not over at once, by default."""


@dataclass(frozen=True)
class Conditions:
    """The same for all cells of a drill."""

    recovered_within_s: float = RECOVERED_WITHIN_S
    outage_s: float = OUTAGE_S
    durability: Durability = Durability.FAST
    autopilot: AutopilotMode = AutopilotMode.OFF
    encrypted: bool = False


USUAL = Conditions()


class FaultName(StrEnum):
    """A fault at the moment when a step begins."""

    KILL = "kill"
    """SIGKILL to the process alone, as the kernel does when memory is short."""
    STOP = "stop"
    """SIGSTOP for some seconds, then SIGCONT: to an engine with its JVM and its workers."""
    SUSPEND = "suspend"
    """The same to all processes of a site: its machine sleeps."""
    CLOCK = "clock"
    """For some seconds the process's clock is an hour ahead."""
    CUT = "cut"
    """Nothing passes between the site and the hub for some seconds, and no connection is closed."""
    CUT_TO_HUB = "cut-to-hub"
    """The same from the site to the hub and to Redis only: the site hears, and no one hears it."""
    CUT_TO_SITE = "cut-to-site"
    """The same from the hub and from Redis to the site only: the site is heard, and hears no one."""
    CUT_FROM_REDIS = "cut-from-redis"
    """The same from Redis to the site only."""
    DISK_FULL = "disk-full"
    """For some seconds no file of the process can be written, also if it is restarted meanwhile."""
    POWER = "power"
    """All processes of a site, or of the hub with Redis and the services, die at once, and start again."""
    LOSE_DISK = "lose-disk"
    """The power of the target fails, and it comes back empty, before the job is its own."""
    TWO_COORDINATORS = "two-coordinators"
    """A second coordinator starts, and leads. Then the first takes over again."""
    REDIS_FROM_YESTERDAY = "redis-from-yesterday"
    """Redis dies, and comes back with the data that it had before the operation."""
    LOSE_REPLY = "lose-reply"
    """The step is carried out and answered, and the coordinator dies without having read the answer."""
    TWICE = "twice"
    """The step's command is delivered a second time."""


class ActorName(StrEnum):
    """Whom a fault hits. Source, target and output are sites. The source has the job when the operation
    begins. The target gets the job or, from a redirect, its results."""

    SOURCE_AGENT = "source-agent"
    SOURCE_ENGINE = "source-engine"
    SOURCE_NATS = "source-nats"
    TARGET_AGENT = "target-agent"
    TARGET_ENGINE = "target-engine"
    TARGET_NATS = "target-nats"
    OUTPUT_AGENT = "output-agent"
    """Of the site that keeps the job's results when the operation begins, and does not run it. Where the
    source or the target keeps them, they are the ones to hit."""
    OUTPUT_NATS = "output-nats"
    COORDINATOR = "coordinator"
    MONITOR = "monitor"
    REDIS = "redis"


ADJUST: Final = "adjust"
UPDATE: Final = "update"
REDIRECT: Final = "redirect"
REMOVE: Final = "remove"
FAIL_OVER: Final = "fail-over"

CHANGES = (ADJUST, UPDATE, REDIRECT, REMOVE, FAIL_OVER)
"""Operations that are no migrations, by the names of their tables."""

APPLY: Final = "apply"
"""A pipeline is applied again: one of its jobs is updated, another one moves, and a third comes."""
QUERY: Final = "query"
"""A query joins the text that a job answers, which goes on with its state."""
UPGRADE: Final = "upgrade"
"""A site is upgraded: its job moves away, its agent and its server restart, and the job comes back."""

PLAN: Final = "plan"
"""A plan brings gateways at the job's site to another version, in two waves. The job goes on beside it."""

PLAN_STEPS = ("first-wave", "second-wave")
"""A fault comes when such a wave begins."""

PLAN_ACTORS = frozenset(
    {ActorName.SOURCE_AGENT, ActorName.SOURCE_NATS, ActorName.COORDINATOR, ActorName.REDIS}
)
"""Those that have a part in it. Gateways that are killed are in the tests of plans."""

COMPOSED = {APPLY: UPDATE, QUERY: UPDATE, UPGRADE: str(StrategyName.HANDOVER)}
"""Operations that consist of others. Faults come at the steps of the first of these, by its table's name."""


def _operations() -> dict[str, StepTable]:
    known = tables()
    moves = {n: table for n, table in known.items() if isinstance(table, Strategy) and not table.loses_state}
    composed = {name: replace(known[first], name=name) for name, first in COMPOSED.items()}
    return moves | {name: known[name] for name in CHANGES} | composed


OPERATIONS = _operations()
"""Their steps are the rows of the matrix. A strategy that throws state away cannot lose it."""

STEPS = {name: tuple(step.name for step in table.steps) for name, table in OPERATIONS.items()} | {
    PLAN: PLAN_STEPS
}
"""Operation → the names of its steps, in order: all rows of the matrix."""

HAVE_TARGET = frozenset(OPERATIONS) - {ADJUST, UPDATE, REMOVE, APPLY, QUERY}
"""Operations with a site besides those of the job and of its results."""

EVERY_ACTOR = frozenset(ActorName)
TARGETS = frozenset({ActorName.TARGET_AGENT, ActorName.TARGET_ENGINE, ActorName.TARGET_NATS})
BROKERS = frozenset({ActorName.SOURCE_NATS, ActorName.TARGET_NATS, ActorName.OUTPUT_NATS})

ONCE = frozenset({FaultName.LOSE_DISK, FaultName.LOSE_REPLY, FaultName.TWICE})
"""Faults that are not the second of a pair: after the first, there may be no copy to lose, or no command."""

CUTS = (FaultName.CUT, FaultName.CUT_TO_HUB, FaultName.CUT_TO_SITE, FaultName.CUT_FROM_REDIS)
"""All or a part of a site's link is cut."""

HITS: dict[FaultName, frozenset[ActorName]] = {
    FaultName.KILL: EVERY_ACTOR,
    FaultName.STOP: EVERY_ACTOR,
    # The machine of a site is its broker's. The hub's has the coordinator, which would see nothing pass.
    FaultName.SUSPEND: BROKERS,
    FaultName.CLOCK: EVERY_ACTOR,
    # A link ends at a site's broker: the same cut would count again for each other process of the site.
    **dict.fromkeys(CUTS, BROKERS),
    # Coordinator and monitor keep no files.
    FaultName.DISK_FULL: EVERY_ACTOR - {ActorName.COORDINATOR, ActorName.MONITOR},
    # One actor for each machine: a site's broker, and Redis for the hub.
    FaultName.POWER: BROKERS | {ActorName.REDIS},
    # Any other site keeps what no one else has: events, results, or the only state of a job.
    FaultName.LOSE_DISK: frozenset({ActorName.TARGET_NATS}),
    FaultName.TWO_COORDINATORS: frozenset({ActorName.COORDINATOR}),
    FaultName.REDIS_FROM_YESTERDAY: frozenset({ActorName.REDIS}),
}
"""Actors that a fault can hit, whatever the step. Other faults concern the command of a step, and so only
the actor that gets it."""

COMMANDED: dict[Actor, ActorName] = {
    Actor.SOURCE: ActorName.SOURCE_AGENT,
    Actor.TARGET: ActorName.TARGET_AGENT,
    Actor.OUTPUT: ActorName.OUTPUT_AGENT,
    Actor.MONITOR: ActorName.MONITOR,
}
"""Actors that get the command of a step. Steps of the coordinator are writes to the registry, without a
command that could come twice, or a reply that could be lost."""


OPENS_OUTPUT = open_output.name
"""Step of a redirect at the site that the results go to."""


LONGEST_NAME, SHORTENED = 64, 55
"""Characters of a scenario's name, and of the part of a longer one that is kept."""


@dataclass(frozen=True, order=True)
class Cell:
    """One cell of the matrix."""

    operation: str
    """A strategy of migrations, `PLAN`, or one of `CHANGES` or `COMPOSED`."""
    step: str
    fault: FaultName
    actor: ActorName
    second: tuple[FaultName, ActorName] | tuple[()] = ()
    """Fault and actor at the next step. Empty: one fault is all."""

    @property
    def name(self) -> str:
        """For people: `general/pause-transfer/kill/source-engine`, and of a pair `…/then/stop/redis`."""
        second = f"/then/{'/'.join(self.second)}" if self.second else ""
        return f"{self.operation}/{self.step}/{self.fault}/{self.actor}{second}"

    @property
    def scenario(self) -> str:
        """Name of its scenario: `general-pause-transfer-kill-source-engine`. A long one is cut off."""
        name = self.name.replace("/", "-")
        return name if len(name) <= LONGEST_NAME else f"{name[:SHORTENED]}-{crc32(name.encode()):08x}"

    @property
    def party(self) -> str:
        """The site, or the process of the hub, that its fault hits."""
        return self.actor.partition("-")[0]

    @property
    def next_step(self) -> str | None:
        """The step after this one. None if it is the last, or if a plan has it: two faults are for jobs."""
        names = () if self.operation == PLAN else STEPS[self.operation]
        return next((after for name, after in pairwise(names) if name == self.step), None)


def matrix() -> list[Cell]:
    """Return all cells that make sense, in the order of the tables."""
    of_plans = [
        Cell(PLAN, step, fault, actor)
        for step in PLAN_STEPS
        for fault in FaultName
        for actor in ActorName
        if fault not in ONCE and actor in HITS[fault] & PLAN_ACTORS
    ]
    return of_plans + [
        Cell(name, step.name, fault, actor)
        for name, table in OPERATIONS.items()
        for step in table.steps
        for fault in FaultName
        for actor in ActorName
        if _makes_sense(table, step, fault, actor)
    ]


def pairs() -> list[Cell]:
    """Return a pair for each cell whose step has a next one: there, another party meets a fault, too.

    Which fault and whom is drawn by the cell's name. All pairs would take years.
    """
    single = matrix()
    at: defaultdict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in single:
        if cell.fault not in ONCE:
            at[cell.operation, cell.step].append(cell)
    found: list[Cell] = []
    for cell in single:
        if cell.fault is FaultName.LOSE_DISK or cell.next_step is None:
            continue
        seconds = [other for other in at[cell.operation, cell.next_step] if other.party != cell.party]
        other = seconds[crc32(cell.name.encode()) % len(seconds)]
        found.append(replace(cell, second=(other.fault, other.actor)))
    return found


def _makes_sense(table: StepTable, step: Step[Any], fault: FaultName, actor: ActorName) -> bool:
    if actor is ActorName.MONITOR and not (isinstance(table, Strategy) and table.monitored):
        return False
    if actor in TARGETS and table.name not in HAVE_TARGET:
        return False
    if actor is ActorName.TARGET_ENGINE and table.name == REDIRECT:
        return False  # The site that gets the results has no part in computing them.
    if fault is FaultName.LOSE_DISK and step.name not in _undoable(table):
        return False
    if fault in CUTS and table.name == FAIL_OVER and actor is ActorName.SOURCE_NATS:
        return False  # It is cut off already.
    if fault in HITS:
        return actor in HITS[fault]
    return _commanded(table, step) is actor


def _undoable(table: StepTable) -> list[str]:
    """Return the steps at whose beginning the source still has everything, and is not lost itself."""
    if not isinstance(table, Strategy):
        return []
    return [step.name for step in takewhile(lambda step: not step.point_of_no_return, table.steps)]


def _commanded(table: StepTable, step: Step[Any]) -> ActorName | None:
    """Return the actor that gets the command of a step."""
    if table.name == REDIRECT and step.name == OPENS_OUTPUT:
        return ActorName.TARGET_AGENT
    return COMMANDED.get(step.actor)


def select(
    operations: Collection[str] = (),
    steps: Collection[str] = (),
    faults: Collection[str] = (),
    actors: Collection[str] = (),
    *,
    paired: bool | None = False,
) -> list[Cell]:
    """Return the cells with these operations, steps, faults and actors. An empty collection allows all.

    `paired`: only pairs of faults; null: single ones and pairs. Of a pair, the first fault counts. Raises
    `TowpathError` for a name that the matrix does not have, and if no cell is left.
    """
    cells = [*(matrix() if not paired else ()), *(pairs() if paired is not False else ())]
    _check("operation", operations, (cell.operation for cell in cells))
    _check("step", steps, (cell.step for cell in cells))
    _check("fault", faults, (cell.fault for cell in cells))
    _check("actor", actors, (cell.actor for cell in cells))
    chosen = [
        cell
        for cell in cells
        if (not operations or cell.operation in operations)
        and (not steps or cell.step in steps)
        and (not faults or cell.fault in faults)
        and (not actors or cell.actor in actors)
    ]
    if not chosen:
        raise TowpathError(
            ErrorCode.INVALID,
            "no cell of the matrix is so",
            field="actor",
            value=", ".join([*operations, *steps, *faults, *actors]),
            allowed="what `towpath drill --list` shows",
        )
    return chosen


def named(names: Collection[str]) -> list[Cell]:
    """Return the cells of these names, such as `update/stop-job/kill/redis`. Raises `TowpathError`."""
    cells = {cell.name: cell for cell in (*matrix(), *pairs())}
    for name in names:
        if name not in cells:
            raise TowpathError(
                ErrorCode.INVALID,
                "the matrix has no such cell",
                field="cell",
                value=name,
                allowed="what `towpath drill --list` shows",
            )
    return [cells[name] for name in dict.fromkeys(names)]


def _check(field: str, given: Collection[str], known: Iterable[str]) -> None:
    allowed = list(dict.fromkeys(str(name) for name in known))
    for name in given:
        if name not in allowed:
            raise TowpathError.unknown(field, str(name), allowed)


def sample(cells: Sequence[Cell], count: int, seed: int) -> list[Cell]:
    """Return `count` of the cells, spread evenly over operations and faults, the same for the same seed."""
    draw = random.Random(seed)
    strata: defaultdict[tuple[str, FaultName], list[Cell]] = defaultdict(list)
    for cell in sorted(cells):
        strata[cell.operation, cell.fault].append(cell)
    for stratum in strata.values():
        draw.shuffle(stratum)
    order = list(strata)
    draw.shuffle(order)
    left = deque(strata[key] for key in order)
    chosen: list[Cell] = []
    while left and len(chosen) < count:
        stratum = left.popleft()
        chosen.append(stratum.pop())
        if stratum:
            left.append(stratum)
    return chosen
