"""Fold an operation's journal into its progress. A coordinator that starts knows nothing else."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from towpath.contracts.commands import JournalEntry, MigrationFigures, OperationKind, OperationState
from towpath.protocols.epochs import undo_epoch
from towpath.protocols.record import OperationRecord
from towpath.protocols.step import Step
from towpath.protocols.table import strategy_of, table_of


class StepPhase(StrEnum):
    """Phase of a step, as a line of the journal names it."""

    BEGUN = "begun"
    """The step is about to be sent: from here on it may have had effects."""
    CONFIRMED = "confirmed"
    FAILED = "failed"
    """The step was refused, or not confirmed in time. With `undo` in the detail: its compensation was."""
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"


class OperationProgress:
    """An operation's record and journal, folded line by line."""

    def __init__(self, record: OperationRecord, entries: list[JournalEntry]) -> None:
        self.record = record.model_copy(update={"begun": (), "facts": {}})
        self.table = table_of(record)
        self.entries: list[JournalEntry] = []
        self.failure: str | None = None
        """The reason of the rollback, if there is one. Invariant: never set after the point of no return."""
        self.missed: dict[str, str] = {}
        """Step → the reason why the operation went on without it."""
        self.undone: set[str] = set()
        self.not_undone: dict[str, str] = {}
        """Step → the reason why its compensation failed."""
        self.beyond_return = False
        for entry in entries:
            self.add(entry)

    def add(self, entry: JournalEntry) -> None:
        """Take one more line into account."""
        self.record = self._after(entry)
        self.entries.append(entry)
        phase = StepPhase(entry.phase)
        if phase is StepPhase.CONFIRMED:
            self.beyond_return |= self.table.step(entry.step).point_of_no_return
        elif phase is StepPhase.COMPENSATED:
            self.undone.add(entry.step)
        elif phase is StepPhase.FAILED:
            self._add_failure(self.table.step(entry.step), entry.detail)

    def _after(self, entry: JournalEntry) -> OperationRecord:
        record = self.record
        if entry.phase == StepPhase.BEGUN and entry.step not in record.begun:
            return record.model_copy(update={"begun": (*record.begun, entry.step)})
        if entry.phase == StepPhase.CONFIRMED:
            return record.model_copy(update={"facts": {**record.facts, entry.step: entry.detail}})
        return record

    def _add_failure(self, step: Step[Any], detail: dict[str, Any]) -> None:
        reason = f"{step.name}: {detail.get('reason', 'failed')}"
        if detail.get("undo"):
            self.not_undone[step.name] = reason
        elif step.optional or self.beyond_return:
            self.missed[step.name] = reason
        else:
            self.failure = reason
            self.record = self.record.model_copy(
                update={"state": OperationState.ROLLING_BACK, "note": reason}
            )

    def begun_at(self, step: str) -> datetime:
        """Return when a begun step began."""
        return next(e.at for e in self.entries if e.step == step and e.phase == StepPhase.BEGUN)

    def to_take(self) -> list[Step[Any]]:
        """Return the steps that are neither confirmed nor given up, in order."""
        settled = self.record.facts.keys() | self.missed.keys()
        return [step for step in self.table.steps if step.name not in settled]

    def to_undo(self) -> list[Step[Any]]:
        """Return the begun steps whose compensation is still owed, the last first."""
        settled = self.undone | self.not_undone.keys()
        begun = [s for s in self.table.steps if s.name in self.record.begun and s.compensation]
        return [s for s in reversed(begun) if s.name not in settled and _is_owed(s, self.record)]

    def ended(self, at: datetime) -> OperationRecord:
        """Return the operation's record now that nothing is left to do."""
        update: dict[str, Any] = {"ended_at": at, "state": OperationState.COMPLETED}
        if self.failure is not None:
            stuck = [s for s in self.not_undone if _must(self.table.step(s))]
            update["state"] = OperationState.NEEDS_OPERATOR if stuck else OperationState.ROLLED_BACK
            update["note"] = self.failure + (f"; {self._what_to_do()}" if stuck else "")
        elif self.missed:
            missed = [reason for name, reason in self.missed.items() if not self.table.step(name).optional]
            update["note"] = "; ".join(missed)
        record = self.record.model_copy(update=update)
        return record.model_copy(update={"figures": figures(record)})

    def _what_to_do(self) -> str:
        record = self.record
        why = "; ".join(self.not_undone.values())
        before = record.entry_before
        sites = " and ".join(sorted({before.site, before.output.site}))
        again = ""
        if record.kind is OperationKind.MIGRATE:
            again = f"; after that `towpath migrate {record.job} --to {record.target}` moves it"
        return (
            f"could not be undone ({why}). Nothing is lost, but {record.job} stands still at {before.site}. "
            f"Run `towpath up` so that {sites} runs again: the coordinator then starts {record.job} there "
            f"by itself with epoch {undo_epoch(record)}; `towpath jobs` shows it running{again}"
        )


def _must(step: Step[Any]) -> bool:
    return step.compensation is not None and step.compensation.must


def _is_owed(step: Step[Any], record: OperationRecord) -> bool:
    return step.compensation is not None and step.compensation.owed(record)


def figures(record: OperationRecord) -> MigrationFigures | None:
    """Return the cost of a completed migration; None for everything else."""
    if record.kind is not OperationKind.MIGRATE or record.state is not OperationState.COMPLETED:
        return None
    return strategy_of(record).figures(record)
