"""Search for courses of moves that break an invariant, the shortest first."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from simulation.mesh import MONITOR
from simulation.move import Move
from simulation.trial import Reconcile, Trial
from simulation.weakness import Violation
from towpath.contracts.commands import StrategyName

Plan = Sequence[StrategyName]
"""Migrations one after the other, each to the site that does not own the job then."""

SEND = Move("send")
LINES_TO_DIE_AT = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Node:
    """A moment before a command, and the way to it."""

    trial: Trial
    begun: int
    """Migrations of the plan that have begun."""
    faults: int
    script: tuple[str, ...]
    """Lines of a scenario that lead here."""


@dataclass
class Explorer:
    """A search through every course with at most `faults` faults, those with fewer faults first.

    There are thousands with one fault and millions with two: of those it can draw a sample.
    """

    plan: Plan
    reconcile: Reconcile
    faults: int
    most_moves: int
    """Number of moves after which it stops searching."""
    sampled: bool = False
    """Take courses with few and many faults by turns, so that a search that stops early has seen both."""
    between: tuple[str, str] = ("jfk", "cloud")
    """Sites between which the job moves."""
    seed: int = 1
    verbs: frozenset[str] | None = None
    """Faults to look at; None for all."""
    moves: int = 0
    """Moves made."""
    ends: Counter[int] = field(default_factory=Counter)
    """Number of faults → courses looked at to their end."""
    reached_faults: int = 0
    """All courses with fewer faults than this were searched."""
    _seen: set[Hashable] = field(default_factory=set)

    def find(self, start: Trial) -> list[str] | None:
        """Return a scenario that violates an invariant, with the violation last; None if none was found."""
        waiting: list[list[Node]] = [[] for _ in range(self.faults + 1)]
        waiting[0].append(Node(start, 0, 0, ()))
        draw = random.Random(self.seed)
        goes_on: int | None = None
        while any(waiting) and self.moves < self.most_moves:
            level = self._begun_course(waiting, draw) if goes_on is None else goes_on
            # Take the last one first: a course is followed to its end before the next one begins.
            node, goes_on = waiting[level].pop(), None
            try:
                for following in self._after(node):
                    waiting[following.faults].append(following)
                    goes_on = level if following.faults == level else goes_on
            except FoundViolation as found:
                return found.script
        self.reached_faults = next((n for n, nodes in enumerate(waiting) if nodes), self.faults + 1)
        return None

    def _begun_course(self, waiting: list[list[Node]], draw: random.Random) -> int:
        """Choose the course to follow and make it the last of its kind. Return its number of faults."""
        kinds = [faults for faults, nodes in enumerate(waiting) if nodes]
        faults = draw.choice(kinds) if self.sampled else kinds[0]
        nodes = waiting[faults]
        # In random order, so that a search that stops early has covered all parts a little.
        place = draw.randrange(len(nodes))
        nodes[place], nodes[-1] = nodes[-1], nodes[place]
        return faults

    def _after(self, node: Node) -> Iterator[Node]:
        trial = node.trial
        if trial.upcoming is not None:
            for move in filter(self._is_looked_at, self._moves(node)):
                following = self._made(node, move)
                if following is not None:
                    yield following
        elif node.begun < len(self.plan):
            yield self._begun(node)
        else:
            self._end(node)

    def _begun(self, node: Node) -> Node:
        trial, strategy = node.trial.copy(), self.plan[node.begun]
        to = next(site for site in self.between if site != trial.owner.site)
        trial.begin(strategy, to)
        line = f"migrate {strategy} {to}"
        return Node(trial, node.begun + 1, node.faults, (*node.script, line))

    def _made(self, node: Node, move: Move) -> Node | None:
        trial = node.trial.copy()
        line = f"{trial.upcoming}: {move}"
        script = node.script if move == SEND else (*node.script, line)
        self.moves += 1
        try:
            trial.make(move)
        except Violation as violation:
            raise FoundViolation([*node.script, line, f"violation: {violation}"]) from violation
        key = (node.begun, trial.key())
        if key in self._seen:
            return None
        self._seen.add(key)
        return Node(trial, node.begun, node.faults + _cost(move), script)

    def _end(self, node: Node) -> None:
        self.ends[node.faults] += 1
        try:
            node.trial.copy().end(self.reconcile)
        except Violation as violation:
            raise FoundViolation([*node.script, f"violation: {violation}"]) from violation

    def _is_looked_at(self, move: Move) -> bool:
        return self.verbs is None or _cost(move) == 0 or move.verb in self.verbs

    def _moves(self, node: Node) -> Iterator[Move]:
        trial = node.trial
        yield SEND
        yield from (Move("late", identity) for identity in trial.under_way)
        if node.faults == self.faults:
            return
        yield from (Move(verb) for verb in ("lose", "lose-answer", "repeat", "copy", "delay", "refuse"))
        if trial.upcoming is not None and _settles(trial.upcoming):
            yield from (Move("die", str(line)) for line in LINES_TO_DIE_AT)
        for site in _hosting(trial):
            yield Move("crash", site)
            yield Move("interrupt", site)
            if site not in trial.mesh.stalled:
                yield Move("stall", site)
        yield Move("forget")
        yield Move("crash", MONITOR)
        if not trial.is_aborted:
            yield Move("abort")


class FoundViolation(Exception):
    """A course ends in a violation."""

    def __init__(self, script: list[str]) -> None:
        self.script = script
        super().__init__("\n".join(script))


def _cost(move: Move) -> int:
    return 0 if move.verb in ("send", "late") else 1


def _settles(command: str) -> bool:
    return command.split("-", 1)[1] in (
        "set-epoch",
        "share-output",
        "remove-divert",
        "divert-undo",
        "set-epoch-undo",
    )


def _hosting(trial: Trial) -> list[str]:
    return [name for name, site in trial.mesh.sites.items() if trial.job in site.hosted]
