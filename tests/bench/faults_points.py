"""Cost of a point with no or little work: in one process, by turns, without a mesh."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
import timeit
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import reports
from benchmark import Benchmark, Say, Scale
from faults_ratios import dearer
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh

from towpath.contracts.faults import LoadedRule, Rule, RuleSet
from towpath.contracts.message import now
from towpath.hooks.points import SOURCE_READ
from towpath.lab.faults.board import Board
from towpath.lab.faults.process_rules import ProcessRules
from towpath.streams.decoding import decoder_of
from towpath.streams.passing import EVENTS, ChangedMessage
from towpath.streams.reading import Reading

BUNDLE = 1_000
LEASE_S = 3600.0
LOOKS = 1_000_000

_DECODER = decoder_of(Reading(None, from_device=True))

NONE, BOARD, NO_POINT = "no rules", "no rules, a thread looks for some", "no point, no thread"
NS_EVENT, MORE = "ns an event", "more than without, %"

DELAY: dict[str, Any] = {"fault": "delay", "parameters": {"ms": 0}}
EMIT: dict[str, Any] = {"fault": "emit", "parameters": {"metric": "seen_events", "value": "serial"}}
READ = {"point": "source.read"}

AT_THE_POINT: Mapping[str, dict[str, Any]] = {
    "text condition, never true": {
        "event": READ,
        "condition": 'payload.startsWith("t_p")',
        "actions": [DELAY],
    },
    "field condition, never true": {"event": READ, "condition": "event.value > 1000000", "actions": [DELAY]},
    "every 1000, no delay": {"event": READ, "every": 1000, "actions": [DELAY]},
    "every 1000, emit": {"event": READ, "every": 1000, "actions": [EMIT]},
}


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure points and conditions, then the thread that reads rules."""
    turns = {Scale.QUICK: 20, Scale.DEFAULT: 100, Scale.FULL: 400}[scale]
    with tempfile.TemporaryDirectory(prefix="towpath-bench-") as directory:
        await asyncio.to_thread(_all, Path(directory), turns, say, measured)


def _all(directory: Path, turns: int, say: Say, measured: Measured) -> None:
    say("the point itself")
    look_ns = _look_ns()
    events = _events()
    say("what a bundle takes, by turns")
    taken = _bundles(directory, events, turns)
    plain = median(taken[NO_POINT])
    share = 100 * look_ns / (1e9 * plain)
    name = f"the look at a point, once for {BUNDLE:,} events"
    figures: dict[str, Value] = {NS_EVENT: rounded(look_ns / BUNDLE, 4), MORE: rounded(share, 5)}
    measured.cases.append(Case(name, figures, {MORE: Target(at_most=1.0)}))
    for setting, seconds in taken.items():
        figures = {NS_EVENT: rounded(1e9 * median(seconds) / BUNDLE, 1)}
        targets: dict[str, Target] = {}
        if setting != NO_POINT:
            ratio = dearer(seconds, taken[NO_POINT])
            figures |= {MORE: round(ratio.percent, 2), "95 %": f"{ratio.low:+.2f} … {ratio.high:+.2f}"}
        if setting in (NONE, BOARD):
            targets = {MORE: Target(at_most=1.0)}
        measured.cases.append(Case(f"read: {setting}", figures, targets))
    measured.notes.append(
        f"'read' is what a source's task does with {BUNDLE:,} events of {reports.SIZE} bytes once it has "
        "them, up to Arrow; JSON, windows and the sink come on top, so that shares of the whole are smaller"
    )


def _look_ns() -> float:
    """Nanoseconds of `if POINT.rules:`, the loop around it left out."""
    looked = timeit.repeat("if point.rules: pass", globals={"point": SOURCE_READ}, number=LOOKS, repeat=7)
    empty = timeit.repeat("pass", number=LOOKS, repeat=7)
    return 1e9 * (min(looked) - min(empty)) / LOOKS


def _events() -> list[ChangedMessage]:
    at = datetime.now(UTC)
    payload = reports.template(reports.SIZE)
    return [
        ChangedMessage(payload=payload, subject="site.bench", stream_sequence=serial, published=at)
        for serial in range(BUNDLE)
    ]


def _decode(events: list[ChangedMessage]) -> None:
    _DECODER.batch(
        [event.stream_sequence for event in events],
        [event.published for event in events],
        [event.payload for event in events],
    )


def _read(events: list[ChangedMessage]) -> None:
    if SOURCE_READ.rules:
        events = list(SOURCE_READ.through(events, EVENTS, job="bench"))
    _decode(events)


def _bundles(directory: Path, events: list[ChangedMessage], turns: int) -> dict[str, list[float]]:
    """Setting → seconds for a bundle, turn by turn."""
    taken: defaultdict[str, list[float]] = defaultdict(list)

    def plainly() -> None:
        _decode(events)

    settings: dict[str, Callable[[], float]] = {
        NO_POINT: lambda: _seconds(plainly),
        NONE: lambda: _seconds(lambda: _read(events)),
        BOARD: lambda: _with_board(directory, lambda: _read(events)),
    }
    loaded = ProcessRules("bench", "bench", directory / "reports")
    for setting, given in AT_THE_POINT.items():
        settings[setting] = lambda given=given: _with_rule(loaded, given, lambda: _read(events))
    for turn in range(turns):
        for setting in random.Random(turn).sample(list(settings), len(settings)):
            taken[setting].append(settings[setting]())
    return {setting: taken[setting] for setting in settings}


def _seconds(work: Callable[[], object], times: int = 30) -> float:
    """Seconds of CPU time that a call of `work` takes this process."""
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times


def _with_board(directory: Path, work: Callable[[], object]) -> float:
    board = Board(directory / "bench.json", "bench")
    board.start()
    try:
        return _seconds(work, times=150)  # Long enough for the thread to look once, about.
    finally:
        board.close()


@contextmanager
def _loaded(loaded: ProcessRules, given: Mapping[str, Any]) -> Iterator[None]:
    rule = LoadedRule(rule=Rule.model_validate({"name": "bench", **given}), version=1, loaded_at=now())
    rules = RuleSet(scope="bench", revision=1, expires_at=time.time() + LEASE_S, rules=[rule])
    loaded.apply(rules)
    try:
        yield
    finally:
        loaded.apply(None)


def _with_rule(loaded: ProcessRules, given: Mapping[str, Any], work: Callable[[], object]) -> float:
    with _loaded(loaded, given):
        return _seconds(work)


BENCHMARK = Benchmark("points", "what a point costs in a process", (), measure)
