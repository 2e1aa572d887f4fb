"""Looks for a course of moves after which an invariant does not hold, the shortest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from towpath.contracts.commands import StrategyName
from towpath.protocols.simulation.mesh import MONITOR
from towpath.protocols.simulation.move import Move
from towpath.protocols.simulation.trial import Reconcile, Trial
from towpath.protocols.simulation.weakness import Violation

Plan = Sequence[tuple[StrategyName, str]]
"""Migrations one after the other: strategy and target."""

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
    """Every course with at most so many faults, those with fewer faults first."""

    plan: Plan
    reconcile: Reconcile
    faults: int
    most_moves: int
    """It gives up looking after so many moves."""
    moves: int = 0
    """Moves made."""
    ends: int = 0
    """Courses looked at to their end."""
    reached_faults: int = 0
    """Courses with fewer faults than this were all looked at."""
    _seen: set[Hashable] = field(default_factory=set)

    def find(self, start: Trial) -> list[str] | None:
        """A scenario that violates an invariant, its last line the violation; None if none was found."""
        queues: list[deque[Node]] = [deque() for _ in range(self.faults + 1)]
        queues[0].append(Node(start, 0, 0, ()))
        for self.reached_faults, queue in enumerate(queues):
            while queue and self.moves < self.most_moves:
                # The last first: a course is followed to its end before the next one is begun.
                node = queue.pop()
                try:
                    for following in self._after(node):
                        queues[following.faults].append(following)
                except FoundViolation as found:
                    return found.script
            if queue:
                return None
        self.reached_faults = self.faults + 1
        return None

    def _after(self, node: Node) -> Iterator[Node]:
        trial = node.trial
        if trial.upcoming is not None:
            for move in self._moves(node):
                following = self._made(node, move)
                if following is not None:
                    yield following
        elif node.begun < len(self.plan):
            yield self._begun(node)
        else:
            self._end(node)

    def _begun(self, node: Node) -> Node:
        trial, (strategy, to) = node.trial.copy(), self.plan[node.begun]
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
        self.ends += 1
        try:
            node.trial.copy().end(self.reconcile)
        except Violation as violation:
            raise FoundViolation([*node.script, f"violation: {violation}"]) from violation

    def _moves(self, node: Node) -> Iterator[Move]:
        trial = node.trial
        yield SEND
        yield from (Move("late", identity) for identity in trial.under_way)
        if node.faults == self.faults:
            return
        yield from (Move(verb) for verb in ("lose", "lose-answer", "repeat", "copy", "delay", "refuse"))
        if trial.upcoming is not None and _settles(trial.upcoming):
            yield from (Move("die", str(line)) for line in LINES_TO_DIE_AT)
        yield from (Move("stall", site) for site in _running(trial) if site not in trial.mesh.stalled)
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
    return command.split("-", 1)[1] in ("set-epoch", "remove-divert", "divert-undo", "set-epoch-undo")


def _running(trial: Trial) -> list[str]:
    return [name for name, site in trial.mesh.sites.items() if trial.job in site.hosted]
