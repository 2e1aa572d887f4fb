"""Scenarios: courses of moves as text, one line per move, with the expected outcome.

    # Why this scenario is kept.
    weak: <a duty that a party neglects>          (any number of such lines, or none)
    migrate <strategy> <site>                     (the migration before it runs to its end first)
    <command>: <move>                             (when this command is about to be sent)
    expect: holds | completed | rolled_back | violation: <part of its text>

Commands that no line names are sent and answered. The strategy of the first migration decides whether
the job computes windows by processing time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulation.move import Move, parse_move
from simulation.trial import Reconcile, Trial
from simulation.weakness import Violation, Weakness
from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError


@dataclass(frozen=True)
class Scenario:
    """A parsed scenario."""

    weak: tuple[Weakness, ...]
    lines: tuple[str, ...]
    expected: tuple[str, ...]
    """Expected outcome: the state of the last operation, `holds`, or `violation: …`."""

    @property
    def strategy(self) -> StrategyName:
        """Strategy of the first migration."""
        return StrategyName(self.lines[0].split()[1])


def parse_scenario(text: str) -> Scenario:
    """Return the scenario of a file. Raises `TowpathError` (invalid) and `ValueError` for unknown names."""
    stripped = [line.split("#")[0].strip() for line in text.splitlines()]
    lines = [line for line in stripped if line]
    weak = [Weakness(line.removeprefix("weak:").strip()) for line in lines if line.startswith("weak:")]
    expected = [line.removeprefix("expect:").strip() for line in lines if line.startswith("expect:")]
    moves = [line for line in lines if not line.startswith(("weak:", "expect:"))]
    if not moves or not moves[0].startswith("migrate ") or not expected:
        raise TowpathError(ErrorCode.INVALID, "a scenario begins with `migrate` and expects something")
    return Scenario(tuple(weak), tuple(moves), tuple(expected))


def outcome(scenario: Scenario, made: Callable[..., Trial], reconcile: Reconcile) -> list[str]:
    """Play a scenario to its end. Return the outcome in the words of `expect`.

    Raises `TowpathError` (invalid) when a line names a command that is not sent any more.
    """
    trial = made(scenario.strategy, *scenario.weak)
    try:
        for line in scenario.lines:
            _play(trial, line)
        trial.end(reconcile)
    except Violation as violation:
        return [f"violation: {violation}"]
    return [trial.record.state.value, "holds"]


def _play(trial: Trial, line: str) -> None:
    if line.startswith("migrate "):
        _send_until(trial, None)
        _, strategy, to = line.split()
        trial.begin(StrategyName(strategy), to)
        return
    command, move = line.split(":", 1)
    _send_until(trial, command)
    trial.make(parse_move(move))


def _send_until(trial: Trial, command: str | None) -> None:
    """Send the commands before that one; without one, send all that are left."""
    while trial.upcoming != command:
        if trial.upcoming is None:
            raise TowpathError(ErrorCode.INVALID, "the command is not sent", field="line", value=command)
        trial.make(Move("send"))
