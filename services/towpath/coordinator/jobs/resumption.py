"""Plan how a job goes on at other events of its inputs, with the state that it has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from towpath.bus import Bus
from towpath.contracts.commands import OperationKind, ResumeFrom
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobState, JobStatus, ResolvedInput
from towpath.contracts.site_commands import ReportProgress
from towpath.coordinator.situation import Situation, check_free, entry_of, record_of
from towpath.operators.kind import keeps_state
from towpath.protocols.record import JobEntry, OperationRecord
from towpath.streams.failures import EventsRenumbered, failure_in
from towpath.streams.pages import serial_before
from towpath.streams.stream_view import stream_view

ANSWER_S = 5.0


async def plan_resume(command: ResumeFrom, situation: Situation) -> OperationRecord:
    """Plan an update that changes where the job reads on. Raises `TowpathError` when it is refused."""
    jobs = await situation.registry.jobs()
    before = entry_of(jobs, command.job, "job")
    inputs = _inputs(before, command.inputs)
    await check_free(command.job, situation)
    await situation.sites.check_up(before.site, "job")
    await situation.sites.check_up(before.output.site, "job")
    for entry in inputs:
        await situation.sites.check_up(entry.site, "inputs")
    progress = ReportProgress(site=before.site, operation=command.id, job=command.job)
    status = await situation.bus.request(progress, deadline_s=ANSWER_S)
    begins = {entry.name: await _beginning(situation.bus, entry, command.start) for entry in inputs}
    is_renumbered = _is_renumbered(status)
    if not is_renumbered:
        _check_goes_forward(begins, status)
    after = before.at_epoch(before.next_epoch()).model_copy(
        update={
            "generation": before.generation + 1,
            "inputs": [
                _with_numbers(entry) if is_renumbered and entry.name in begins else entry
                for entry in before.inputs
            ],
        }
    )
    return record_of(
        command,
        OperationKind.UPDATE,
        command.job,
        before=before,
        after=after,
        keeps_state=keeps_state(before.spec.operator),
        resumes=begins,
    )


def _inputs(before: JobEntry, wanted: Sequence[str]) -> list[ResolvedInput]:
    """Return the inputs of these names; the only one if none is named."""
    known = {entry.name: entry for entry in before.inputs}
    for name in wanted:
        if name not in known:
            raise TowpathError(
                ErrorCode.INVALID,
                f"{before.spec.name} does not read this",
                field="inputs",
                value=name,
                allowed=sorted(known),
            )
    if not wanted and len(known) > 1:
        raise TowpathError(
            ErrorCode.INVALID,
            f"{before.spec.name} has several inputs: say which of them",
            field="inputs",
            value=[],
            allowed=sorted(known),
        )
    return [known[name] for name in dict.fromkeys(wanted)] or list(known.values())


async def _beginning(bus: Bus, entry: ResolvedInput, start: str | int | datetime) -> int:
    """Return the serial number after which a job reads on in an input."""
    try:
        view = await stream_view(bus.connection, entry.site, entry.stream, timeout_s=ANSWER_S)
        if view is None:
            raise TowpathError(ErrorCode.UNKNOWN_TOPIC, "there is no such stream now", value=entry.name)
        oldest, newest = view.first - 1, view.last
        if isinstance(start, datetime):
            found = await serial_before(bus.connection, entry.site, entry.stream, start)
            return newest if found is None else found
    except TimeoutError as error:
        raise TowpathError(
            ErrorCode.UNREACHABLE, f"{entry.site} does not answer", field="inputs", value=entry.name
        ) from error
    if isinstance(start, int):
        if not oldest <= start <= newest:
            raise TowpathError(
                ErrorCode.INVALID,
                f"{entry.name} has no event there",
                field="start",
                value=start,
                allowed=f"{oldest} to {newest}",
            )
        return start
    return oldest if start == "earliest" else newest


def _is_renumbered(status: JobStatus) -> bool:
    failure = failure_in(status.error or "")
    return status.state is JobState.FAILED and failure is not None and failure.kind is EventsRenumbered


def _check_goes_forward(begins: dict[str, int], status: JobStatus) -> None:
    """Raise `TowpathError` (not allowed) if the job would process events twice."""
    for name, begin in begins.items():
        processed = status.serials.get(name, 0)
        if begin < processed:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"{status.job} has processed {name} up to serial {processed}; going back would count events"
                " twice",
                field="start",
                value=begin,
                allowed=f"{processed} or later; a new job may begin earlier",
            )


def _with_numbers(entry: ResolvedInput) -> ResolvedInput:
    """Return the input of a stream that gives its serial numbers to other events."""
    return entry.model_copy(update={"numbering": entry.numbering + 1})
