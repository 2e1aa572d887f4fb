"""Sites, one input stream, output streams, a monitor.

A job's state is one number: the last serial its checkpoint covers. Events are the numbers 1, 2, 3, …
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from simulation.clock import SimulatedClock
from simulation.monitor import SimulatedMonitor
from simulation.output import SimulatedOutput
from simulation.site import REJECTED_EVERY, Hosted, SimulatedSite
from simulation.weakness import Violation, Weakness
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.message import Model
from towpath.contracts.migration import SiteCommand, StepCommand
from towpath.contracts.monitor import MonitorCommand

MONITOR = "monitor"
"""Address of commands to the monitor."""


class AgentDied(Exception):
    """The agent was killed between two lines of what it was doing."""


class SimulatedMesh:
    """Sites, one input stream, output streams, a monitor."""

    def __init__(self, clock: SimulatedClock, *sites: str, weak: frozenset[Weakness] = frozenset()) -> None:
        self.clock = clock
        self.weak = weak
        self.sites = {name: SimulatedSite(name, self) for name in sites}
        self.monitor = SimulatedMonitor(self)
        self.outputs: dict[str, SimulatedOutput] = {}
        self.batch: int | None = None
        """Largest number of events in a micro-batch; None: no limit."""
        self.stored = 0
        """Newest serial of the input."""
        self.turn = 0
        """Sites take turns, so that they cut the input into different micro-batches."""
        self.stalled: set[str] = set()
        """Sites whose engines stand still."""
        self.dies_after: int | None = None
        """The output's agent dies after this many more lines of a change of epoch."""
        self._transfers: dict[str, tuple[str, int, int | None]] = {}
        """Operation → digest and serial of the state that arrived last, and end of the micro-batch that it
        says to repeat."""

    def copy(self, clock: SimulatedClock) -> SimulatedMesh:
        """Return a mesh that shares no later change with this one."""
        other = SimulatedMesh(clock, weak=self.weak)
        other.sites = {name: site.copy(other) for name, site in self.sites.items()}
        other.monitor = self.monitor.copy(other)
        other.outputs = {job: output.copy() for job, output in self.outputs.items()}
        other.stored, other.turn, other.batch = self.stored, self.turn, self.batch
        other.stalled = set(self.stalled)
        other._transfers = dict(self._transfers)
        return other

    def key(self) -> Hashable:
        """Return a key that is equal for meshes that behave equally from here on."""
        sites = tuple(
            (
                name,
                tuple(_hosted_key(h) for h in s.hosted.values()),
                *map(_items, (s.roles, s.checkpoints, s.planned)),
            )
            for name, s in self.sites.items()
        )
        outputs = tuple(
            (
                job,
                o.accepted,
                o.owners.get(o.accepted),
                o.beside,
                tuple(o.results),
                frozenset(o.remembered),
                o.shadow,
            )
            for job, o in self.outputs.items()
        )
        decided = tuple((operation, str(answer)) for operation, answer in self.monitor.answers.items())
        return (
            sites, outputs, self.stored, self.turn % 2, frozenset(self.stalled),
            tuple(self.monitor.watches), decided, _items(self._transfers),
        )  # fmt: skip

    def handle(self, command: StepCommand[Any]) -> Model:
        """Let the party addressed carry a command out. Raises `TowpathError`, and `AgentDied`."""
        if isinstance(command, MonitorCommand):
            return self.monitor.handle(command)
        assert isinstance(command, SiteCommand)
        return self.sites[command.site].handle(command)

    def lose_memory(self, party: str) -> None:
        """A site's agent, or the monitor, is killed and started again."""
        self.monitor.lose_memory() if party == MONITOR else self.sites[party].lose_memory()

    def interrupt(self, site: str) -> None:
        """A site's engine is killed when it has published a micro-batch of each job, and committed none."""
        for job in list(self.sites[site].hosted):
            self.sites[site].interrupt(job)

    def forget_ids(self) -> None:
        """Time passes: the server forgets the message ids it has seen."""
        for output in self.outputs.values():
            output.remembered.clear()

    def output(self, job: str, stream: ResolvedOutput) -> SimulatedOutput:
        """Return the job's output. Make it if there is none."""
        return self.outputs.setdefault(job, SimulatedOutput(stream, self.weak))

    def accept(self, job: str, epoch: int, stream: ResolvedOutput, *, owner: str) -> None:
        """Set the epoch and the owner that the output accepts before anything happens."""
        output = self.output(job, stream)
        output.accepted, output.owners = epoch, {epoch: owner}

    def between_lines(self) -> None:
        """Let others work while an agent is between two lines of a command, or kill the agent there."""
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after <= 0:
                self.dies_after = None
                raise AgentDied
        self.work(0)

    def transfer(self, operation: str, serial: int, planned: int | None) -> str:
        """Move a state to the target, with the end of the micro-batch that it says to repeat. Return its
        digest."""
        digest = f"{operation}@{serial}" if planned is None else f"{operation}@{serial}+{planned}"
        self._transfers[operation] = (digest, serial, planned)
        return digest

    def arrived(self, operation: str, digest: str) -> tuple[int, int | None]:
        """Return the state that arrived, and the end of the micro-batch that it says to repeat.

        Raises `TowpathError` (failed) when another state arrived.
        """
        found = self._transfers.get(operation)
        if found is None or found[0] != digest:
            raise TowpathError(ErrorCode.FAILED, "the state has not arrived completely")
        return found[1], found[2]

    def work(self, events: int = 1) -> None:
        """Take events in, and let every running job do a micro-batch when it is its turn."""
        self.stored += events
        self.turn += 1
        for place, (name, site) in enumerate(self.sites.items()):
            for job, hosted in list(site.hosted.items()):
                # Windows end at different moments at different sites; other jobs never wait.
                due = not hosted.has_windows or (self.turn + place) % 2 == 0
                if due and name not in self.stalled:
                    site.work(job)
        self.monitor.work()

    def settle_down(self, rounds: int = 6) -> None:
        """Let stalled sites go on, and every job catch up."""
        self.stalled.clear()
        for _ in range(rounds):
            self.work(0)

    def frontier(self, site: str, job: str) -> int | None:
        """Last serial that a site's copy of the job has processed."""
        hosted = self.sites[site].hosted.get(job)
        if hosted is None:
            return None
        return self.sites[site].checkpoints.get((job, hosted.assignment.generation), 0)

    def may_publish(self, site: str, job: str) -> bool:
        """True if the output stream takes what this site's copy of the job publishes."""
        hosted, output = self.sites[site].hosted.get(job), self.outputs.get(job)
        if hosted is None or output is None or hosted.is_fenced:
            return False
        return output.takes(hosted.assignment.epoch)

    def owners(self, job: str) -> list[str]:
        """Sites that run the job and may publish."""
        return [n for n, s in self.sites.items() if self.may_publish(n, job) and s.hosted[job].running]

    @property
    def published(self) -> dict[str, set[int]]:
        """Job → serials that its results cover."""
        return {job: output.counted for job, output in self.outputs.items()}

    def check(self, job: str) -> None:
        """Raise `Violation` if two may publish now, or an event can no longer be processed."""
        output = self.outputs.get(job)
        most = 1 if output is None or output.beside is None else 2
        if len(self.owners(job)) > most:
            raise Violation(f"{self.owners(job)} may all publish")
        if output is None:
            return
        done = output.counted | _waiting(output)
        frontier = next(serial for serial in range(1, self.stored + 2) if serial not in done)
        covered = [at for s in self.sites.values() for (name, _), at in s.checkpoints.items() if name == job]
        if covered and min(covered) >= frontier:
            raise Violation(f"no checkpoint at or before serial {frontier}")

    def check_complete(self, job: str) -> None:
        """Raise `Violation` unless each event counts exactly once, and each rejected one is there once."""
        output = self.outputs[job]
        missing = set(range(1, self.stored + 1)) - output.counted
        if missing:
            raise Violation(f"events {sorted(missing)} count nowhere")
        rejected = {r.through for r in output.results if r.rejected}
        expected = set(range(REJECTED_EVERY, self.stored + 1, REJECTED_EVERY))
        if rejected != expected:
            raise Violation(f"rejected events {sorted(rejected ^ expected)} are missing or unexpected")


def _waiting(output: SimulatedOutput) -> set[int]:
    """Serials whose results wait in the shadow to be forwarded."""
    shadow = output.shadow
    if shadow is None or shadow.diverted is None:
        return set()
    results = [r for _, r in shadow.of(shadow.diverted) if not r.rejected]
    return {serial for r in results for serial in range(r.after + 1, r.through + 1)}


def _items(mapping: dict[Any, Any]) -> Hashable:
    return tuple(sorted(mapping.items()))


def _hosted_key(hosted: Hosted) -> Hashable:
    a = hosted.assignment
    after = a.inputs[0].after_serial
    flags = (hosted.running, hosted.restored, hosted.awaits_state, hosted.is_first_batch, hosted.is_fenced)
    return (a.spec.name, a.epoch, a.generation, a.migration, after, flags)
