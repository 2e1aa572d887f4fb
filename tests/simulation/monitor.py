"""The monitor: compares two runs, forwards diverted results, decides where the output changes hands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulation.output import Result, identity_of
from simulation.weakness import Weakness
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Model
from towpath.contracts.migration import AmendedResult
from towpath.contracts.monitor import (
    AwaitConsistency,
    Consistent,
    MonitorCommand,
    StartMonitor,
    StopMonitor,
    Watch,
)
from towpath.contracts.reply import Done

if TYPE_CHECKING:
    from simulation.mesh import SimulatedMesh

PATIENCE_ROUNDS = 8
"""Rounds of work while the monitor waits for two runs to become consistent."""


@dataclass
class SimulatedMonitor:
    """A monitor that stores nothing: its decisions follow from the streams and from the commands."""

    mesh: SimulatedMesh
    watches: dict[str, Watch] = field(default_factory=dict)
    """Operation → the runs to compare."""
    answers: dict[str, Consistent] = field(default_factory=dict)
    """Operation → the decision, as long as this process lives."""

    def copy(self, mesh: SimulatedMesh) -> SimulatedMonitor:
        """The same monitor in another mesh."""
        return SimulatedMonitor(mesh, dict(self.watches), dict(self.answers))

    def lose_memory(self) -> None:
        """Replace the process by a new one."""
        self.watches.clear()
        self.answers.clear()

    def handle(self, command: MonitorCommand[Any]) -> Model:
        """Carry a command out. Raises `TowpathError`."""
        match command:
            case StartMonitor():
                self.watches[command.operation] = command.watch
                return Done()
            case AwaitConsistency():
                self.watches[command.operation] = command.watch
                return self._await(command)
            case StopMonitor():
                self.watches.pop(command.operation, None)
                return Done()
        raise AssertionError(f"no such command: {command.verb()}")

    def work(self) -> None:
        """Forward what the sources of all diverted jobs have published since the last call."""
        for operation, watch in self.watches.items():
            if watch.interim is not None and operation not in self.answers:
                self._forward(watch, self._cut(watch))

    def _await(self, command: AwaitConsistency) -> Consistent:
        for _ in range(PATIENCE_ROUNDS):
            if command.operation not in self.answers:
                decide = self._identical if command.watch.interim is None else self._agreed
                answer = decide(command.watch)
                if answer is not None:
                    self.answers[command.operation] = answer
            if command.operation in self.answers:
                return self.answers[command.operation]
            self.mesh.work()
        raise TowpathError(ErrorCode.FAILED, "not consistent in time")

    def _identical(self, watch: Watch) -> Consistent | None:
        """Consistent once the target has processed what the source has."""
        output = self.mesh.outputs[watch.job]
        source, target = (
            self.mesh.frontier(watch.source, watch.job),
            self.mesh.frontier(watch.target, watch.job),
        )
        shadow = output.shadow
        if shadow is None or source is None or target is None or target < source:
            return None
        there, position = set(output.results), 0
        for place, result in shadow.of(watch.target_epoch):
            if result not in there:
                break
            position = place
        return Consistent(position=position)

    def _agreed(self, watch: Watch) -> Consistent | None:
        """The first target result that reaches beyond the cut is amended to begin there."""
        cut, shadow = self._cut(watch), self.mesh.outputs[watch.job].shadow
        if cut is None or shadow is None or not self._forward(watch, cut):
            return None
        for place, result in shadow.of(watch.target_epoch):
            if result.rejected or result.through <= cut:
                continue
            if result.after == cut:
                return Consistent(position=place - 1)
            amended = AmendedResult(identity=identity_of(Result(cut, result.through)), body="{}")
            return Consistent(position=place, amended=[amended])
        return None

    def _cut(self, watch: Watch) -> int | None:
        """Return the source's position when both had published a result: a fold over the shadow's order."""
        shadow = self.mesh.outputs[watch.job].shadow if watch.job in self.mesh.outputs else None
        decides_again = Weakness.DECIDE_AGAIN in self.mesh.weak
        source: int | None = None
        is_target_seen = False
        for epoch, result in shadow.messages if shadow is not None else ():
            if result.rejected:
                continue
            is_target_seen |= epoch == watch.target_epoch
            if epoch == watch.source_epoch:
                source = result.through
            if is_target_seen and source is not None and not decides_again:
                return source
        return source if is_target_seen else None

    def _forward(self, watch: Watch, cut: int | None) -> bool:
        """Publish the source's results up to the cut; False if the output does not take them."""
        output = self.mesh.outputs.get(watch.job)
        if output is None or output.shadow is None or output.accepted != watch.interim:
            return False
        by_memory = Weakness.FORWARD_BY_MEMORY in self.mesh.weak
        for _, result in output.shadow.of(watch.source_epoch):
            if cut is None or result.through <= cut:
                output.store(result, reads_back=not by_memory)
        return True
