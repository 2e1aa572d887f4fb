"""Requests to roll back a migration, or to finish one that holds: checks and answers."""

from __future__ import annotations

from towpath.contracts.commands import JournalEntry, OperationAnswer, OperationKind, OperationState
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.protocols.progress import OperationProgress
from towpath.protocols.record import ENDED, OperationRecord
from towpath.protocols.requests import ABORTED
from towpath.protocols.table import table_of


def check_abortable(record: OperationRecord, entries: list[JournalEntry]) -> None:
    """Raise `TowpathError` (not allowed) unless it is a migration under way that can be rolled back.

    A migration that an earlier request rolled back passes: asking again is no mistake.
    """
    if record.kind is not OperationKind.MIGRATE:
        raise _refusal(record, f"operation {record.id} is no migration but a {record.kind}", "a migration")
    if record.state in ENDED and not was_aborted(record):
        raise _refusal(
            record, f"migration {record.id} has ended already: {record.state}", "a migration under way"
        )
    if OperationProgress(record, entries).beyond_return:
        raise _beyond_return(record)


def check_finishable(record: OperationRecord) -> None:
    """Raise `TowpathError` (not allowed) unless it holds, will hold, or has been finished."""
    if not table_of(record).holds:
        raise _refusal(record, f"operation {record.id} ends by itself", "a migration by `twin`")
    if record.state in ENDED and record.state is not OperationState.COMPLETED:
        raise _refusal(
            record, f"migration {record.id} has ended already: {record.state}", "a migration under way"
        )


def holding(record: OperationRecord) -> OperationAnswer:
    """Return the answer to a migration that holds: it has come as far as it can without another request."""
    note = (
        f"{record.source} and {record.target} both publish; `towpath migration {record.id} finish` leaves "
        f"the job to {record.target}, `abort` to {record.source}"
    )
    return record.answer().model_copy(update={"note": note})


def was_aborted(record: OperationRecord) -> bool:
    """Tell if the migration was rolled back on request."""
    return record.state is OperationState.ROLLED_BACK and ABORTED in record.note


def rolled_back(record: OperationRecord) -> OperationAnswer:
    """Return the answer to an abort whose migration has ended.

    Raises `TowpathError`: not allowed when it was completed all the same, failed when it needs an operator.
    """
    if record.state is OperationState.COMPLETED:
        raise _beyond_return(record)
    if record.state is OperationState.NEEDS_OPERATOR:
        raise TowpathError(
            ErrorCode.FAILED, f"migration {record.id} could not be rolled back by itself: {record.note}"
        )
    return record.answer()


def _beyond_return(record: OperationRecord) -> TowpathError:
    return _refusal(
        record,
        f"migration {record.id} is past its point of no return: only going forward is safe",
        f"when it has ended, `towpath migrate {record.job} --to {record.source}` moves the job back",
    )


def _refusal(record: OperationRecord, message: str, allowed: str) -> TowpathError:
    return TowpathError(ErrorCode.NOT_ALLOWED, message, field="operation", value=record.id, allowed=allowed)
