"""Read spans from the mesh's places: those of one trace, or the newest of a place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nats.aio.client import Client
from nats.errors import Error as NatsError
from pydantic import ValidationError

from towpath.contracts.data_plane import MESSAGE_ID_HEADER
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.traces import EVENT_SPANS_STREAM, SPANS_STREAM, EventSpan, Span
from towpath.streams.pages import PAGE, StoredMessage, last_serial, page

PLACE_S = 3.0
"""Deadline for one answer of a place."""


class PlaceAway(Exception):
    """Error: a place did not answer in time. Its text tells why."""


async def spans_of(connection: Client, place: str, trace: str, kind: type[Span] = Span) -> list[Span]:
    """Return a place's spans of a trace: those of commands, or the `EventSpan`s. Raises `PlaceAway`."""
    stream = EVENT_SPANS_STREAM if kind is EventSpan else SPANS_STREAM
    subject = kind.subject.format(trace=trace)
    spans: list[Span] = []
    first = 1
    while messages := await _page(connection, place, stream, first, PAGE, subject):
        spans += parsed(messages)
        if len(messages) < PAGE:
            break
        first = messages[-1].serial + 1
    return spans


async def newest_events_at(connection: Client, place: str, count: int) -> list[Span]:
    """Return the newest spans of single events of a place, in order of time. Raises `PlaceAway`."""
    last = await _last(connection, place, EVENT_SPANS_STREAM)
    first = max(1, last - count + 1)
    return parsed(await _page(connection, place, EVENT_SPANS_STREAM, first, count)) if last else []


async def backwards_at_hub(connection: Client) -> AsyncIterator[tuple[str, str]]:
    """Yield trace and span of all that the hub has, the newest first, without parsing them.

    Raises `TowpathError` (unreachable) when the hub does not answer.
    """
    try:
        last = await _last(connection, HUB_SCOPE, SPANS_STREAM)
        while last > 0:
            first = max(1, last - PAGE + 1)
            messages = await _page(connection, HUB_SCOPE, SPANS_STREAM, first, last - first + 1)
            for message in reversed(messages):
                trace, _, span = message.headers.get(MESSAGE_ID_HEADER, "").partition("/")
                if message.serial <= last:
                    yield trace, span.partition("/")[0]
            last = first - 1
    except PlaceAway as error:
        raise TowpathError(ErrorCode.UNREACHABLE, f"the hub's spans cannot be read: {error}") from error


async def _last(connection: Client, place: str, stream: str) -> int:
    async with _in_time():
        return await last_serial(connection, place, stream)


async def _page(
    connection: Client, place: str, stream: str, first: int, count: int, subject: str | None = None
) -> list[StoredMessage]:
    async with _in_time():
        return await page(connection, place, stream, first, count, subject=subject)


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Raise `PlaceAway` when a place does not answer in time, or the connection fails."""
    try:
        async with asyncio.timeout(PLACE_S):
            yield
    except (NatsError, TimeoutError, OSError) as error:
        raise PlaceAway(str(error) or f"no answer within {PLACE_S:g} s") from error


def parsed(messages: list[StoredMessage]) -> list[Span]:
    """Return the spans in these messages. Those of other versions that cannot be read are left out."""
    spans: list[Span] = []
    for message in messages:
        try:
            spans.append(Span.from_bytes(message.body))
        except ValidationError:
            continue
    return spans
