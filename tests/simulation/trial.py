"""Operations on a simulated mesh, command by command: the real tables, the real runner, chosen faults.

The coordinator is killed before every command, and a new one continues from the journal. The check loses
nothing by that, and every moment between two commands becomes a state that can be copied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from simulation.clock import SimulatedClock
from simulation.memory_ledger import MemoryLedger
from simulation.mesh import MONITOR, AgentDied, SimulatedMesh
from simulation.move import Move
from simulation.weakness import Violation, Weakness
from towpath.contracts.commands import JournalEntry, OperationKind, StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Event, Model
from towpath.contracts.migration import SiteCommand, StepCommand
from towpath.contracts.site import SiteState, SiteStatus
from towpath.contracts.site_commands import StartJob
from towpath.protocols.record import JobEntry, OperationRecord
from towpath.protocols.requests import Requests
from towpath.protocols.runner import Runner
from towpath.protocols.table import strategies

Reconcile = Callable[[Mapping[str, JobEntry], list[SiteStatus]], list[SiteCommand[Any]]]
"""Returns the commands that correct sites whose heartbeats differ from the registry."""

BATCH = 4
"""Events of a micro-batch: catching up takes several."""

LONGEST_S = 1e6
"""No course takes longer, unless a step is repeated without end and without success."""


class Stopped(BaseException):
    """Raised to kill the coordinator."""


@dataclass
class Trial:
    """A mesh with one job, the operations on it, and messages still under way."""

    mesh: SimulatedMesh
    ledger: MemoryLedger
    job: str
    loop: asyncio.Runner
    """Shared by all copies."""
    operations: int = 0
    upcoming: str | None = None
    """Identifier of the command about to be sent; None when no operation is under way."""
    under_way: dict[str, StepCommand[Any]] = field(default_factory=dict)
    """Copies and delayed commands, by identifier."""
    is_aborted: bool = False
    _move: Move | None = None
    _refused: str | None = None
    """Id of the command that its receiver has refused."""

    @classmethod
    def of(cls, entry: JobEntry, *sites: str, weak: frozenset[Weakness] = frozenset()) -> Trial:
        """Make a trial whose job runs where its entry says and has processed a few events.

        The caller closes it.
        """
        mesh, name = SimulatedMesh(SimulatedClock(), *sites, weak=weak), entry.spec.name
        mesh.batch = BATCH
        mesh.accept(name, entry.epoch, entry.output, owner=entry.site)
        mesh.handle(StartJob(site=entry.site, operation="before", assignment=entry.assignment()))
        mesh.work(5)
        mesh.work(0)
        return cls(mesh, MemoryLedger(jobs={name: entry}), name, asyncio.Runner())

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *exception: object) -> None:
        self.loop.close()

    def copy(self) -> Trial:
        """Return a trial that shares no later change with this one."""
        clock = replace(self.mesh.clock)
        return replace(
            self, mesh=self.mesh.copy(clock), ledger=self.ledger.copy(), under_way=dict(self.under_way)
        )

    def key(self) -> Hashable:
        """Return a key that is equal for trials that go on equally."""
        journal = tuple(self.ledger.journals.get(self._operation, ()))
        owner = self.owner
        entry = (owner.site, owner.epoch, owner.used_epoch, owner.generation)
        lines = tuple(map(_timeless, journal))
        return (entry, self.mesh.key(), lines, self.upcoming, self.is_aborted, tuple(self.under_way))

    @property
    def _operation(self) -> str:
        return f"m{self.operations}"

    @property
    def record(self) -> OperationRecord:
        """The newest operation's record."""
        return OperationRecord.model_validate_json(self.ledger.records[self._operation])

    @property
    def owner(self) -> JobEntry:
        """The job, as the registry has it."""
        return self.ledger.jobs[self.job]

    def begin(self, strategy: StrategyName, to: str) -> None:
        """Accept a migration and run it up to its first command."""
        before = self.owner
        self.operations += 1
        after = before.at_epoch(before.next_epoch(interim=strategies()[strategy].interim_epoch)).model_copy(
            update={
                "site": to,
                "generation": before.generation + (1 if strategies()[strategy].empty_beginning else 0),
            }
        )
        record = OperationRecord(
            id=self._operation, command=self._operation, kind=OperationKind.MIGRATE, job=self.job,
            strategy=strategy, before=before, after=after, old_epoch=before.epoch, new_epoch=after.epoch,
            hold_s=0, begun_at=self.mesh.clock.now(),
        )  # fmt: skip
        self.ledger.accept(record)
        self.is_aborted = False
        self._advance(None)

    def make(self, move: Move) -> None:
        """Make a move. Raises `Violation` when an invariant does not hold after it."""
        if move.is_of_message:
            self._advance(move)
        else:
            self._happen(move)
        self.mesh.check(self.job)

    def end(self, reconcile: Reconcile) -> None:
        """Let everything end without further faults.

        Raises `Violation` unless the job runs as the registry says, and every event counts once.
        """
        while self.upcoming is not None:
            self.make(Move("send"))
        for identity in list(self.under_way):
            self.make(Move("late", identity))
        self.mesh.settle_down()
        self._reconcile(reconcile)
        self.mesh.work(2)
        self.mesh.settle_down(self.mesh.stored)
        self.mesh.check(self.job)
        self.mesh.check_complete(self.job)
        if self.mesh.owners(self.job) != [self.owner.site]:
            raise Violation(f"{self.mesh.owners(self.job)} publish, the owner is {self.owner.site}")
        if self.mesh.outputs[self.job].accepted != self.owner.epoch:
            raise Violation("registry and output differ in the epoch")

    def _reconcile(self, reconcile: Reconcile) -> None:
        for _ in range(5):
            told = reconcile(self.ledger.jobs, [self._heartbeat(site) for site in self.mesh.sites])
            for command in told:
                self._deliver(command)
            self.mesh.settle_down()
            if not told:
                return
        raise Violation("heartbeats still differ from the registry after five rounds of reconciliation")

    def _heartbeat(self, site: str) -> SiteStatus:
        jobs = self.mesh.sites[site].status()
        return SiteStatus(site=site, state=SiteState.UP, nats_url="", mqtt_host="", mqtt_port=0, jobs=jobs)

    def _happen(self, move: Move) -> None:
        match move.verb:
            case "late":
                self._deliver_late(move.what)
            case "crash":
                self.mesh.lose_memory(move.what)
            case "interrupt":
                self.mesh.interrupt(move.what)
            case "stall":
                self.mesh.stalled.add(move.what)
            case "go":
                self.mesh.stalled.discard(move.what)
            case "work":
                self.mesh.work(0)
            case "events":
                self.mesh.work(int(move.what))
            case "forget":
                self.mesh.forget_ids()
            case "abort":
                self.is_aborted = True
                self._advance(None)
            case _:
                raise AssertionError(f"no such move: {move}")

    def _deliver_late(self, identity: str) -> None:
        command = self.under_way.pop(identity)
        try:
            self._deliver(command)
        except TowpathError:
            return

    def _deliver(self, command: StepCommand[Any]) -> Model:
        try:
            return self.mesh.handle(command)
        finally:
            self.mesh.check(self.job)

    def _advance(self, move: Move | None) -> None:
        """Run the operation up to its next command; with a move, past the upcoming command."""
        self._move, self._refused = move, None
        try:
            self.loop.run(self._run())
        except Stopped:
            return
        self.upcoming = None

    async def _run(self) -> None:
        requests = Requests()
        if self.is_aborted:
            requests.abort.set()
        await Runner(self.ledger, self._send, _publish, self.mesh.clock).run(self._operation, requests)

    async def _send(self, command: StepCommand[Any], *, deadline_s: float, attempt_s: float) -> Model:
        move, self._move = self._move, None
        if move is None and self._refused == command.id:
            # Its receiver would refuse each repetition: let the command's time run out.
            move = Move("send")
            self._let_pass(deadline_s)
        if move is None:
            self.upcoming = command.id
            raise Stopped
        self.mesh.work()
        self.mesh.check(self.job)
        return self._meet(move, command, deadline_s, attempt_s)

    def _meet(self, move: Move, command: StepCommand[Any], deadline_s: float, attempt_s: float) -> Model:
        """Send the command with the fate that the move gives it. Raises `TowpathError`."""
        if move.verb == "refuse":
            raise TowpathError(ErrorCode.FAILED, "refused")
        if move.verb in ("delay", "copy"):
            self.under_way[command.id] = command
        if move.verb in ("delay", "lose"):
            raise self._silence(deadline_s)
        self.mesh.dies_after = int(move.what) if move.verb == "die" else None
        try:
            answer = self._deliver(command)
        except TowpathError:
            self._refused = command.id
            raise
        except AgentDied:
            self.mesh.lose_memory(_addressee(command))
            raise self._silence(attempt_s) from None
        finally:
            self.mesh.dies_after = None
        if move.verb == "lose-answer":
            raise self._silence(deadline_s)
        return self._deliver(command) if move.verb == "repeat" else answer

    def _let_pass(self, seconds: float) -> None:
        if self.mesh.clock.elapsed_s > LONGEST_S:
            raise Violation("a command is refused again and again, and nothing else is tried")
        self.mesh.clock.elapsed_s += seconds

    def _silence(self, seconds: float) -> TowpathError:
        self._let_pass(seconds)
        return TowpathError(ErrorCode.DEADLINE, "no answer in time")


@lru_cache(maxsize=4096)
def _timeless(line: str) -> str:
    """Return a journal's line without its times."""
    entry = JournalEntry.model_validate_json(line)
    detail = {name: value for name, value in entry.detail.items() if not name.endswith("_at")}
    return f"{entry.step} {entry.phase} {detail}"


def _addressee(command: StepCommand[Any]) -> str:
    return command.site if isinstance(command, SiteCommand) else MONITOR


async def _publish(event: Event) -> None:
    """Drop the event: no one subscribes."""
