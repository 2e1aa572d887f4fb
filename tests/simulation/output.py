"""The streams of one job at its output site: results, rejected events, and the shadow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from simulation.weakness import Violation, Weakness
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.migration import OpenShadow, SetEpoch, Settlement


class Result(NamedTuple):
    """A result over the events `after` < serial ≤ `through`; also its message id."""

    after: int
    through: int
    rejected: bool = False
    """A rejected event, in a stream of its own."""


def parse_result(identity: str) -> Result:
    """Return the result of an id that `identity_of` made."""
    after, through = identity.split("-")
    return Result(int(after), int(through))


def identity_of(result: Result) -> str:
    """Return a result's message id as text."""
    return f"{result.after}-{result.through}"


@dataclass(frozen=True)
class Shadow:
    """Results kept aside, in the order in which they came."""

    operation: str
    epochs: tuple[int, ...]
    output_serial: int
    """Results in the output when the shadow was opened."""
    diverted: int | None = None
    """Epoch of the output's owner, when its results come here instead."""
    messages: tuple[tuple[int, Result], ...] = ()
    """Epoch and result; positions count from 1."""
    frozen: bool = False
    """True if it accepts nothing any more, because it is being settled."""

    def accepts(self, epoch: int) -> bool:
        """True if a run of this epoch may publish here."""
        return epoch in self.epochs and not self.frozen

    def of(self, epoch: int) -> list[tuple[int, Result]]:
        """Return position and result of everything that this epoch published, rejected events too."""
        return [(n, r) for n, (e, r) in enumerate(self.messages, start=1) if e == epoch]


@dataclass
class SimulatedOutput:
    """One output stream, its stream of rejected events, its shadow."""

    stream: ResolvedOutput
    weak: frozenset[Weakness] = frozenset()
    accepted: int = 0
    """The latest epoch whose results are taken."""
    beside: int | None = None
    """An older one whose results are taken, too."""
    owners: dict[int, str] = field(default_factory=dict)
    """Epoch → the site that commands have named as its owner."""
    results: dict[Result, None] = field(default_factory=dict)
    """In the order in which they were stored."""
    counted: set[int] = field(default_factory=set)
    """Serials of the events that the results cover."""
    remembered: set[Result] = field(default_factory=set)
    """Ids the server still remembers by itself."""
    shadow: Shadow | None = None

    def copy(self) -> SimulatedOutput:
        """Return an output that shares no later change with this one."""
        return replace(
            self,
            owners=dict(self.owners),
            results=dict(self.results),
            counted=set(self.counted),
            remembered=set(self.remembered),
        )

    def store(self, result: Result, *, reads_back: bool = True) -> None:
        """Store a result unless it is there. Raises `Violation` when an event then counts twice."""
        if result in self.remembered or (reads_back and result in self.results):
            return
        if result.rejected and result in self.results:
            raise Violation(f"rejected event {result.through} counts twice")
        if not result.rejected:
            serials = set(range(result.after + 1, result.through + 1))
            if serials & self.counted:
                raise Violation(f"events {sorted(serials & self.counted)} count twice")
            self.counted |= serials
        self.results[result] = None
        self.remembered.add(result)

    def publish(self, owner: str, epoch: int, results: list[Result], *, reads_back: bool) -> bool:
        """Store what the owner of an epoch publishes; False if its epoch is accepted nowhere.

        Raises `Violation` when commands have named another owner.
        """
        if self.accepts(epoch) and self.owners.get(epoch) != owner:
            raise Violation(f"{owner} publishes under epoch {epoch} of {self.owners.get(epoch)}")
        if self.takes(epoch):
            for result in results:
                self.store(result, reads_back=reads_back)
            return True
        if self.shadow is not None and self.shadow.accepts(epoch):
            held = set(self.shadow.messages)
            new = tuple((epoch, result) for result in results if (epoch, result) not in held)
            self.shadow = replace(self.shadow, messages=self.shadow.messages + new)
            return True
        return False

    def accepts(self, epoch: int) -> bool:
        """True if results of this epoch are accepted anywhere."""
        return self.takes(epoch) or (self.shadow is not None and self.shadow.accepts(epoch))

    def takes(self, epoch: int) -> bool:
        """True if the stream itself takes results of this epoch."""
        return epoch in (self.accepted, self.beside)

    def is_fenced(self, epoch: int) -> bool:
        """True if a run of this epoch need never try again."""
        diverted = self.shadow is not None and self.shadow.diverted == epoch
        return not self.accepts(epoch) and epoch < self.accepted and not diverted

    def open(self, command: OpenShadow) -> int:
        """Open a shadow for epochs. Raises `TowpathError` (fenced) when the output is past them."""
        newest, known = max(command.epochs), self.shadow
        if self.accepted >= newest:
            raise fenced(f"epoch {newest}: the output is at {self.accepted}")
        if (
            known is not None
            and max(known.epochs) > newest
            and Weakness.REPLACE_NEWER_SHADOW not in self.weak
        ):
            raise fenced(f"epoch {newest}: a shadow of epoch {max(known.epochs)} is open")
        self._refuse_unsettled(command)
        self.owners |= command.owners
        reopen = known is not None and known.frozen and Weakness.REOPEN_FROZEN_SHADOW in self.weak
        if known is None or known.epochs != tuple(command.epochs) or reopen:
            diverted = min(command.epochs) if command.interim is not None else None
            epochs = tuple(command.epochs)
            known = Shadow(command.operation, epochs, len(self.results), diverted)
        self.shadow = known
        if command.interim is not None:
            self.accepted = max(self.accepted, command.interim)
        return known.output_serial

    def _refuse_unsettled(self, command: OpenShadow) -> None:
        """Raise `TowpathError` (failed) while another operation's diverted results wait in the shadow."""
        known = self.shadow
        weak = Weakness.REPLACE_UNSETTLED_SHADOW in self.weak
        if known is None or known.diverted is None or known.operation == command.operation or weak:
            return
        raise TowpathError(ErrorCode.FAILED, f"results diverted by {known.operation} wait in the shadow")

    def drop_shadow(self, operation: str) -> None:
        """Delete the shadow that this operation opened."""
        anybody = Weakness.SHADOW_OF_ANYBODY in self.weak
        if self.shadow is not None and (anybody or self.shadow.operation == operation):
            self.shadow = None

    def set_epoch(self, command: SetEpoch) -> Iterator[None]:
        """Pass the output to a new owner, line by line: the agent may die at each `yield`.

        Raises `TowpathError` (fenced) when the output accepts a higher epoch.
        """
        if command.epoch < self.accepted:
            raise fenced(f"epoch {command.epoch}: the output is at {self.accepted}")
        self.owners |= command.owners
        settlement = command.settlement or self._owed(command)
        if settlement is None:
            self.accepted, self.beside = command.epoch, command.beside
            return
        if command.epoch > self.accepted:
            yield from self._settle(settlement, command.beside)
            self.accepted = command.epoch
            yield
        late = Weakness.DROP_AT_EQUAL_EPOCH in self.weak
        if self.shadow is not None and (late or max(self.shadow.epochs) <= command.epoch):
            self.shadow = None

    def _owed(self, command: SetEpoch) -> Settlement | None:
        """Return the settlement that a change of epoch owes even if the command names none: the owner's
        diverted results."""
        shadow = self.shadow
        weak = Weakness.PLAIN_SET_EPOCH_SETTLES_NOTHING in self.weak
        if shadow is None or shadow.diverted is None or max(shadow.epochs) >= command.epoch or weak:
            return None
        return Settlement(epoch=shadow.diverted, interim=command.epoch - 1)

    def _settle(self, settlement: Settlement, beside: int | None) -> Iterator[None]:
        if self.shadow is not None:
            self.shadow = replace(self.shadow, frozen=True)
        yield
        self.accepted, self.beside = max(self.accepted, settlement.interim), beside
        taken_over = self._taken_over(settlement)
        if Weakness.HALF_SETTLED_IS_SETTLED in self.weak:
            self._note_settled()
        yield
        reads_back = Weakness.SETTLE_BY_MEMORY not in self.weak
        for amended in settlement.amended:
            self.store(parse_result(amended.identity), reads_back=reads_back)
            yield
        for position, result in self.shadow.of(taken_over) if self.shadow else []:
            if result.rejected or position > settlement.after_position:
                self.store(result, reads_back=reads_back)
                yield
        self._note_settled()

    def _note_settled(self) -> None:
        """Store that the shadow is settled, before the output accepts the new owner.

        When the command is repeated, the agent need not settle again.
        """
        if self.shadow is not None:
            self.shadow = replace(self.shadow, diverted=None)

    def _taken_over(self, settlement: Settlement) -> int:
        """Return the epoch whose results count; in another operation's shadow, the diverted epoch."""
        shadow = self.shadow
        if shadow is None or shadow.diverted is None or settlement.epoch in shadow.epochs:
            return settlement.epoch
        return settlement.epoch if Weakness.SETTLE_ANOTHERS_SHADOW in self.weak else shadow.diverted


def fenced(message: str) -> TowpathError:
    """Return the error that refuses a command of an older epoch."""
    return TowpathError(ErrorCode.FENCED, message)
