"""Read messages of a stream anywhere in the mesh by serial number, with JetStream's batched direct get.

It reads about 50,000 messages a second and leaves nothing at the server: no consumer, no position.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from towpath.contracts.data_plane import (
    NO_BATCH,
    NO_RESPONDERS,
    ResultSubject,
    batch_of,
    label_order,
    output_id,
    overlap_range,
    storing_times,
)
from towpath.streams.stream_view import call_at, stream_view

PAGE = 2000
"""Messages of one request."""

PAGE_BYTES = 64 * 1024**2
PAGE_DEADLINE_S = 15.0

_WHOLE = ("204", "404")
"""Values of the header `Status` at the end of a page, and for one without messages."""


@dataclass(frozen=True)
class StoredMessage:
    """A message as a stream holds it."""

    serial: int
    subject: str
    headers: dict[str, str]
    body: bytes

    @property
    def identity(self) -> str:
        """The message id that it has, or will have, in the output; empty if it has none."""
        return output_id(self.headers)


async def last_serial(
    connection: Client, site: str, stream: str, *, timeout_s: float = PAGE_DEADLINE_S
) -> int:
    """Return the newest serial number of a stream; 0 if it is empty or does not exist.

    Raises `TimeoutError` when the site does not answer.
    """
    view = await stream_view(connection, site, stream, timeout_s=timeout_s)
    return 0 if view is None else view.last


async def page(
    connection: Client,
    site: str,
    stream: str,
    first: int,
    count: int = PAGE,
    *,
    subject: str | None = None,
    most_bytes: int = PAGE_BYTES,
) -> list[StoredMessage]:
    """Return up to `count` messages from serial `first` on, in order, of all subjects or of one.

    It passes over messages that have expired. The message that passes `most_bytes` is the last.
    Raises `TimeoutError` when the site does not answer.
    """
    wanted: dict[str, Any] = {"seq": first, "batch": count, "max_bytes": most_bytes}
    if subject is not None:
        wanted["next_by_subj"] = subject
    return await _page(connection, site, stream, wanted)


async def is_another(connection: Client, site: str, stream: str, serial: int, stored_at: str) -> bool:
    """Tell if the message of a serial number is not the one that was stored at a time, as servers write it.

    Then the stream began again, or lost its end. False if it keeps no message of that number.
    Raises `TimeoutError` when the site does not answer.
    """
    there = await page(connection, site, stream, serial, 1)
    return bool(there) and there[0].serial == serial and stored_at not in storing_times(there[0].headers)


async def serial_before(connection: Client, site: str, stream: str, at: datetime) -> int | None:
    """Return the serial number before the first message stored at or after a time; None if none was.

    Raises `TimeoutError` when the site does not answer.
    """
    found = await _page(connection, site, stream, {"start_time": at.astimezone(UTC).isoformat(), "batch": 1})
    return found[0].serial - 1 if found else None


async def _page(connection: Client, site: str, stream: str, wanted: Mapping[str, Any]) -> list[StoredMessage]:
    """Return the messages of a batched direct get."""
    messages: list[StoredMessage] = []
    complete: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def on_message(message: Msg) -> None:
        if message.headers is None or "Status" in message.headers:
            if not complete.done():
                complete.set_result((message.headers or {}).get("Status", ""))
        else:
            messages.append(_stored(message))

    inbox = connection.new_inbox()
    subscription = await connection.subscribe(inbox, cb=on_message)
    try:
        request = json.dumps(wanted).encode()
        await connection.publish(call_at(connection, site, f"DIRECT.GET.{stream}"), request, reply=inbox)
        status = await asyncio.wait_for(complete, PAGE_DEADLINE_S)
    finally:
        await subscription.unsubscribe()
    if status == NO_RESPONDERS:
        raise TimeoutError(f"no one answers for {stream} at {site}")
    if status not in _WHOLE:  # An empty page must mean that there is nothing.
        raise TimeoutError(f"{stream} at {site} cannot be read: {status}")
    return messages


def _stored(message: Msg) -> StoredMessage:
    headers = dict(message.headers or {})
    return StoredMessage(
        serial=int(headers["Nats-Sequence"]),
        subject=headers["Nats-Subject"],
        headers=headers,
        body=message.data,
    )


async def read_after(
    connection: Client,
    site: str,
    stream: str,
    after: int,
    *,
    through: int | None = None,
) -> list[StoredMessage]:
    """Return all messages after serial `after` that the stream holds now, up to `through` if given."""
    reading = pages_after(connection, site, stream, after, through=through)
    return [message async for messages in reading for message in messages]


async def pages_after(
    connection: Client,
    site: str,
    stream: str,
    after: int,
    *,
    through: int | None = None,
    subject: str | None = None,
) -> AsyncIterator[list[StoredMessage]]:
    """Yield the same messages page by page, of all subjects or of one. No page is empty.

    Raises `TimeoutError` when the site does not answer.
    """
    last = await last_serial(connection, site, stream)
    last = last if through is None else min(last, through)
    while after < last:
        messages = await page(connection, site, stream, after + 1, PAGE, subject=subject)
        if not messages:
            return
        after = messages[-1].serial
        if messages[0].serial <= last:
            yield [message for message in messages if message.serial <= last]


async def pages_before(
    connection: Client, site: str, stream: str, last: int, *, after: int = 0
) -> AsyncIterator[list[StoredMessage]]:
    """Yield pages backwards, from serial `last` down to `after`. Each page is in order; no page is empty.

    Ends where nothing older is kept. Raises `TimeoutError` when the site does not answer.
    """
    while last > after:
        first = max(after + 1, last - PAGE + 1)
        found = await page(connection, site, stream, first, last - first + 1)
        messages = [message for message in found if message.serial <= last]
        if not messages:
            return
        yield messages
        last = first - 1


def order_of(message: StoredMessage) -> tuple[int, ...]:
    """Return where the micro-batch that published a message comes, see `data_plane.label_order`."""
    return label_order(batch_of(message.headers))


def reaches_before(messages: Sequence[StoredMessage], order: tuple[int, ...]) -> bool:
    """Tell if a page begins before a micro-batch, so that nothing of it lies before the page.

    A message without a label, which no job makes, does not say that.
    """
    labelled = (message for message in messages if batch_of(message.headers) != NO_BATCH)
    first = next(labelled, None)
    return first is not None and order_of(first) < order


async def overlap(connection: Client, site: str, stream: str, mark: str) -> set[str]:
    """Return the ids of others' messages that an output's present owner may publish, too.

    `mark` spans them, see `data_plane.OVERLAP`.

    Raises `TimeoutError` when the site does not answer.
    """
    after, through = overlap_range(mark)
    if after >= through:
        return set()
    reading = pages_after(connection, site, stream, after, through=through)
    return {message.identity async for messages in reading for message in messages}


async def newest_before(connection: Client, site: str, stream: str, epoch: int) -> StoredMessage | None:
    """Return the newest message of owners before `epoch` in an output stream; None if none is kept.

    Raises `TimeoutError` when the site does not answer.
    """
    last = await last_serial(connection, site, stream)
    async for messages in pages_before(connection, site, stream, last):
        older = [message for message in messages if ResultSubject.of(message.subject).epoch < epoch]
        if older:
            return older[-1]
    return None
