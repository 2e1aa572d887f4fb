"""Plan how a job goes on at other events of its inputs, with the state that it has."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from towpath.bus import Bus
from towpath.contracts.commands import OperationKind, ResumeFrom
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobState, JobStatus, ResolvedInput
from towpath.contracts.site_commands import ReportProgress
from towpath.coordinator.situation import Situation, check_free, entry_of, record_of
from towpath.operators.kind import keeps_state
from towpath.protocols.record import JobEntry, OperationRecord
from towpath.streams.failures import EventsRenumbered, failure_in
from towpath.streams.pages import is_another, serial_before
from towpath.streams.stream_view import StreamView, stream_view

log = logging.getLogger(__name__)

ANSWER_S = 5.0


async def plan_resume(command: ResumeFrom, situation: Situation) -> OperationRecord:
    """Plan an update that changes where the job reads on. Raises `TowpathError` when it is refused."""
    jobs = await situation.registry.jobs()
    before = entry_of(jobs, command.job, "job")
    inputs = _inputs(before, command.inputs)
    others = [entry for entry in before.inputs if entry not in inputs]
    await check_free(command.job, situation)
    await situation.sites.check_up(before.site, "job")
    await situation.sites.check_up(before.output.site, "job")
    for entry in inputs:
        await situation.sites.check_up(entry.origin, "inputs")
    progress = ReportProgress(site=before.site, operation=command.id, job=command.job)
    status = await situation.bus.request(progress, deadline_s=ANSWER_S)
    begins: dict[str, int] = {}
    renumbered: set[str] = set()
    await _check_kept(situation.bus, others, before.site, status)
    for entry in inputs:
        stream = await _stream(situation.bus, entry)
        floor = status.serials.get(entry.name, 0)
        if await _is_renumbered(situation.bus, entry, before.site, stream, status):
            renumbered.add(entry.name)
            floor = await _still_processed(situation.bus, entry, stream, status)
        begins[entry.name] = await _beginning(situation.bus, entry, stream, command.start, floor)
    inputs_after = [_renumbered(i) if i.name in renumbered else i for i in before.inputs]
    after = before.at_epoch(before.next_epoch()).model_copy(
        update={"generation": before.generation + 1, "inputs": inputs_after}
    )
    return record_of(
        command,
        OperationKind.UPDATE,
        command.job,
        before=before,
        after=after,
        keeps_state=keeps_state(before.spec.operator),
        resumes=begins,
        is_broken=status.state is JobState.FAILED,
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


async def _check_kept(bus: Bus, others: Sequence[ResolvedInput], here: str, status: JobStatus) -> None:
    """Raise `TowpathError` if inputs that go on where they are have lost events: the job would stop again."""
    lost = [entry.name for entry in others if await _has_lost(bus, entry, here, status)]
    if lost:
        raise TowpathError(
            ErrorCode.INVALID,
            "other inputs have lost events, too, and the job would stop again: name them as well",
            field="inputs",
            value=lost,
            allowed=f"all inputs that have lost events: also {', '.join(lost)}",
        )


async def _has_lost(bus: Bus, entry: ResolvedInput, here: str, status: JobStatus) -> bool:
    """Tell if a job that has stopped lacks events of an input: those that it reads here, or has read.

    What is out of reach is not known to be lost.
    """
    position = status.serials.get(entry.name)
    if position is None or status.state is not JobState.FAILED:
        return False
    try:
        copy = await stream_view(bus.connection, here, entry.local_stream(here), timeout_s=ANSWER_S)
        if copy is not None and copy.last > position and copy.first > position + 1:
            return True
        return await _is_renumbered(bus, entry, here, await _stream(bus, entry), status)
    except (TimeoutError, TowpathError) as error:
        log.info("%s cannot be asked for %s: %s", entry.origin, entry.name, error)
        return False


async def _stream(bus: Bus, entry: ResolvedInput) -> StreamView:
    """Return the stream of an input as it is at its own site."""
    try:
        stream = await stream_view(bus.connection, entry.origin, entry.stream, timeout_s=ANSWER_S)
    except TimeoutError as error:
        raise _no_answer(entry) from error
    if stream is None:
        raise TowpathError(ErrorCode.UNKNOWN_TOPIC, "there is no such stream now", value=entry.name)
    return stream


async def _beginning(
    bus: Bus, entry: ResolvedInput, stream: StreamView, start: str | int | datetime, floor: int
) -> int:
    """Return the serial number after which a job reads on in an input, not before `floor`.

    Raises `TowpathError` (not allowed) for an earlier one that was asked for by number or time.
    """
    oldest, newest = max(stream.first - 1, floor), max(stream.last, floor)
    if isinstance(start, str):
        return oldest if start == "earliest" else newest
    if isinstance(start, datetime):
        given, wanted = start.isoformat(), await _before(bus, entry, stream, start)
    else:
        given = wanted = start
    if wanted < floor:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{entry.name} is processed up to serial {floor}; going back would count events twice",
            field="start",
            value=given,
            allowed=f"{floor} or later; a new job may begin earlier",
        )
    if not oldest <= wanted <= newest:
        raise TowpathError(
            ErrorCode.INVALID,
            f"{entry.name} has no event there",
            field="start",
            value=given,
            allowed=f"{oldest} to {newest}",
        )
    return wanted


async def _before(bus: Bus, entry: ResolvedInput, stream: StreamView, at: datetime) -> int:
    """Return the serial number before the first event stored at or after a time."""
    try:
        found = await serial_before(bus.connection, entry.origin, entry.stream, at)
    except TimeoutError as error:
        raise _no_answer(entry) from error
    return stream.last if found is None else found


async def _still_processed(bus: Bus, entry: ResolvedInput, stream: StreamView, status: JobStatus) -> int:
    """Return the last serial number of a stream that lost its end up to which its events are processed.

    They were stored up to the time of the last one that the job has processed. What came since is new. A
    stream that began again has none of them.
    """
    stored_at = status.stored_at.get(entry.name)
    if stored_at is None:
        return 0
    since = datetime.fromisoformat(stored_at) + timedelta(microseconds=1)  # It has nanoseconds.
    return await _before(bus, entry, stream, since)


def _no_answer(entry: ResolvedInput) -> TowpathError:
    return TowpathError(
        ErrorCode.UNREACHABLE, f"{entry.origin} does not answer", field="inputs", value=entry.name
    )


async def _is_renumbered(
    bus: Bus, entry: ResolvedInput, here: str, stream: StreamView, status: JobStatus
) -> bool:
    """Tell if a stream gives its serial numbers to other events.

    It ends too early, or has another event at the job's position. Or the job has said so, when it still had.
    """
    position, stored_at = status.serials.get(entry.name, 0), status.stored_at.get(entry.name)
    if stream.last < position:
        return True
    failure, name = failure_in(status.error or ""), entry.local_stream(here)
    if failure is not None and failure.kind is EventsRenumbered and f"processed {name} up to" in failure.text:
        return status.state is JobState.FAILED
    if stored_at is None:
        return False
    try:
        return await is_another(bus.connection, entry.origin, entry.stream, position, stored_at)
    except TimeoutError as error:
        raise _no_answer(entry) from error


def _renumbered(entry: ResolvedInput) -> ResolvedInput:
    """Return the input of a stream that gives its serial numbers to other events."""
    return entry.model_copy(update={"numbering": entry.numbering + 1})
