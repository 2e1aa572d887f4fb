"""A ledger in memory, for checking tables: it keeps its promises as long as the object lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from towpath.contracts.commands import JournalEntry
from towpath.protocols.record import JobEntry, OperationRecord, RegistryChange
from towpath.protocols.runner import Superseded


@lru_cache(maxsize=4096)
def _entry(line: str) -> JournalEntry:
    """Parse a line once: the explorer reads the same lines in many courses."""
    return JournalEntry.model_validate_json(line)


@lru_cache(maxsize=4096)
def _record(text: str) -> OperationRecord:
    return OperationRecord.model_validate_json(text)


@dataclass
class MemoryLedger:
    """A ledger that keeps its promises as long as the object lives. Crashes come from `around`."""

    records: dict[str, str] = field(default_factory=dict)
    journals: dict[str, list[str]] = field(default_factory=dict)
    jobs: dict[str, JobEntry] = field(default_factory=dict)
    locks: dict[str, str] = field(default_factory=dict)
    unannounced: set[str] = field(default_factory=set)
    around: Callable[[str], None] = lambda moment: None
    """Called with a moment's name before and after each write; may raise to crash the runner there."""

    def copy(self) -> MemoryLedger:
        """Return a ledger that shares no later change with this one."""
        journals = {operation: list(lines) for operation, lines in self.journals.items()}
        return replace(
            self,
            records=dict(self.records),
            journals=journals,
            jobs=dict(self.jobs),
            locks=dict(self.locks),
            unannounced=set(self.unannounced),
        )

    def accept(self, record: OperationRecord) -> None:
        """Begin an operation."""
        self.records[record.id] = record.model_dump_json()
        self.journals[record.id] = []
        self.locks[record.job] = record.id
        self.unannounced.add(record.id)

    async def load(self, operation: str) -> tuple[OperationRecord, list[JournalEntry]]:
        """See `Ledger.load`."""
        return _record(self.records[operation]), [_entry(line) for line in self.journals[operation]]

    async def append(
        self, record: OperationRecord, entry: JournalEntry, position: int, change: RegistryChange | None
    ) -> None:
        """See `Ledger.append`."""
        moment = f"{entry.step} {entry.phase}"
        self.around(f"before {moment}")
        if len(self.journals[record.id]) != position:
            raise Superseded(record.id)
        self.journals[record.id].append(entry.model_dump_json())
        self._write(record, change)
        self.around(f"after {moment}")

    async def finish(self, record: OperationRecord, position: int, change: RegistryChange | None) -> None:
        """See `Ledger.finish`."""
        self.around("before end")
        if len(self.journals[record.id]) != position:
            raise Superseded(record.id)
        self._write(record, change)
        self.locks.pop(record.job, None)
        self.around("after end")

    async def announced(self, operation: str) -> None:
        """See `Ledger.announced`."""
        self.unannounced.discard(operation)

    def _write(self, record: OperationRecord, change: RegistryChange | None) -> None:
        self.records[record.id] = record.model_dump_json()
        if change is not None and change.entry is not None:
            self.jobs[change.job] = change.entry
        elif change is not None:
            self.jobs.pop(change.job, None)
