"""A bridge's connection to the site's own server, and its way into the IN stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from nats.aio.client import Client

from towpath.brokers.overlap import Seen
from towpath.bus.connecting import Login, connect_once
from towpath.contracts.data_plane import (
    EVENT_ID_HEADER,
    IN_STREAM,
    MESSAGE_ID_HEADER,
    api_prefix,
    bridge_id,
    bridge_id_parts,
    intake_subject,
)
from towpath.mesh.nats_config import MAX_PAYLOAD
from towpath.mesh.state import SiteAccess
from towpath.streams.acknowledged import AcknowledgedSender, Acknowledgement
from towpath.streams.pages import last_serial, page

SILENCE_S = 5.0
"""Without any acknowledgement for this time, while some are due, the stream counts as out of reach."""

_REQUEST_S = 5.0


@dataclass(frozen=True, slots=True)
class Identity:
    """The message id of an event that a bridge stored.

    `session` names one life of the session at the broker, and `number` counts its events. A repetition that
    is recognised is not stored at all. When a bridge was killed while its last events were on their way, the
    same event is sent to the stream twice: the id makes that harmless. Equal payloads have numbers of their
    own.
    """

    session: str
    number: int
    seen: Seen

    def __str__(self) -> str:
        return bridge_id(self.session, self.number, self.seen.packet, self.seen.digest)

    @classmethod
    def parse(cls, text: str) -> Identity | None:
        """Return the identity in a message id. None if another program made the id."""
        parts = bridge_id_parts(text)
        if parts is None:
            return None
        session, number, packet, digest = parts
        return cls(session, number, Seen(packet, digest))


@asynccontextmanager
async def connected(access: SiteAccess, closed: Callable[[str], None]) -> AsyncIterator[Client]:
    """Connect to the site's server, without reconnecting. `closed` gets the reason when the connection ends.

    Messages on their way are then lost, and later ones must not overtake them. Raises `nats.errors.Error` or
    `OSError`.
    """
    assert access.bridge is not None
    name = access.spec.name

    def on_lost(why: str) -> None:
        closed(f"the server of {name}: {why}")

    login = Login(access.nats_url, access.bridge.user, access.bridge.password)
    connection = await connect_once(login, f"bridge-{name}", lost=on_lost, pending_bytes=4 * MAX_PAYLOAD)
    try:
        yield connection
    finally:
        await asyncio.wait_for(connection.close(), _REQUEST_S)


async def request(connection: Client, site: str, call: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of the site's JetStream, or its `error`.

    Raises `TimeoutError`, `nats.errors.Error`.
    """
    answer = await connection.request(
        f"{api_prefix(site)}.{call}", json.dumps(body).encode(), timeout=_REQUEST_S
    )
    return json.loads(answer.data)


class SiteLog:
    """Stores events in the IN stream, many at a time, and reports which are stored."""

    def __init__(self, connection: Client, site: str, stored: Callable[[int], None]) -> None:
        self._connection = connection
        self._site = site
        self._stored = stored
        self._sender = AcknowledgedSender(connection, self._on_acknowledgement)
        self._due = 0
        self._heard_at = asyncio.get_running_loop().time()
        self._failure: str | None = None

    @classmethod
    async def open(cls, connection: Client, site: str, stored: Callable[[int], None]) -> Self:
        """Open the log. It calls `stored` with the number of each event once the stream has it."""
        log = cls(connection, site, stored)
        await log._sender.open()
        return log

    async def newest(self, session: str, most: int) -> list[Identity]:
        """Return events that a bridge stored in this session, oldest first, among the `most` newest ones."""
        last = await last_serial(self._connection, self._site, IN_STREAM)
        after, found = max(0, last - most), []
        while after < last and (messages := await page(self._connection, self._site, IN_STREAM, after + 1)):
            identities = (Identity.parse(message.identity) for message in messages)
            found += [each for each in identities if each is not None and each.session == session]
            after = messages[-1].serial
        return found

    async def store(self, subject: str, body: bytes, identity: Identity, event_id: str = "") -> None:
        """Send one event to the stream. Events are stored in the order of these calls.

        `event_id` is what its device calls it, if it does.
        """
        if not self._due:
            self._heard_at = asyncio.get_running_loop().time()
        self._due += 1
        headers = {MESSAGE_ID_HEADER: str(identity), **({EVENT_ID_HEADER: event_id} if event_id else {})}
        await self._sender.send(intake_subject(subject), body, headers, number=identity.number)

    def check(self) -> None:
        """Raise `ConnectionError` if an event was refused, `TimeoutError` if nothing is acknowledged."""
        if self._failure is not None:
            raise ConnectionError(self._failure)
        if self._due and asyncio.get_running_loop().time() - self._heard_at > SILENCE_S:
            raise TimeoutError(f"the stream of {self._site} acknowledges nothing")

    def _on_acknowledgement(self, heard: Acknowledgement) -> None:
        if not heard.is_stored:
            self._failure = f"the stream of {self._site} refuses: {heard.trouble}"
            return
        if heard.stream != IN_STREAM:
            # The server's own, until the agent has led the subject to IN.
            self._failure = f"at {self._site} {heard.stream} has taken what {IN_STREAM} must keep"
            return
        self._due -= 1
        self._heard_at = asyncio.get_running_loop().time()
        self._stored(heard.number)
