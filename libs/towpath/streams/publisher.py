"""Publish a job's results into its output stream: each is stored once, or there is an error.

Every message has an id made from what identifies the result. So the stream drops messages that a repeated
micro-batch, or a second owner, publishes again. The subject carries the owner and its epoch. A stream accepts
the current ones only, so the server refuses a former owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import nats.errors
from nats.aio.client import Client
from nats.errors import ConnectionClosedError

from towpath.boot_clock import seconds_since_boot
from towpath.bus.connecting import FreshConnection, login_of
from towpath.contracts.data_plane import (
    BATCH_HEADER,
    MESSAGE_ID_HEADER,
    MQTT_QOS_HEADER,
    OVERLAP,
    RESULT_ID_HEADER,
    shadow_id,
    shadow_subject,
)
from towpath.streams.acknowledged import AcknowledgedSender, Acknowledgement
from towpath.streams.failures import Fenced, Unpublished
from towpath.streams.ownership import ResultStream, place_of
from towpath.streams.pages import overlap
from towpath.streams.shared_output import SharedOutput
from towpath.streams.stream_view import stream_view

Connect: TypeAlias = Callable[[], Awaitable[Client]]
"""Returns the connection to publish over: a new one when the last has ended. Raises `Unpublished`."""

IN_FLIGHT = 4000
"""Unacknowledged messages at a time: a few megabytes, enough to hide a link's round trip."""

BURST = 200
"""Messages made at a time: the server stores one burst while the next is made."""

SILENCE_S = 3.0
"""Time without any acknowledgement after which unacknowledged messages are sent again."""

RETRY_S = 0.2
"""Pause between attempts while a site is out of reach."""

CHANGING_S = 0.02
"""Pause between attempts while the output changes its owner: a matter of milliseconds."""

LIFE_S = 10.0
"""Time for a site far away to name the life of its stream."""

UNHEARD_S = 20.0
"""Time for which an epoch may be accepted nowhere: the output's agent may die while the owner changes, and is
back in seconds. After that no stream is about to accept it, and the coordinator must see that."""


class Outgoing(NamedTuple):
    """One message to store."""

    subject: str
    identity: str
    body: bytes


@dataclass
class Publisher:
    """Publishes batches. Use it from the loop that its connections belong to.

    While two sites run a job, the output stream does not accept the epoch of one or both, and a shadow
    stream takes their results. The publisher goes to the stream that accepts its epoch.
    """

    connect: Connect
    patience_s: float = 60.0
    """Seconds to keep trying after the last moment at which everything sent was stored.

    Longer than a broker's restart, shorter than streams remember ids. After it the query fails, and the next
    one reads back what is stored (`published_since`).
    """
    clock: Callable[[], float] = seconds_since_boot
    _aside: set[str] = field(default_factory=set)
    """Subjects whose messages go to the shadow at present."""
    _stored: dict[str, set[str]] = field(default_factory=dict)
    """Subject → ids that the owner before has stored, for a subject that has come from the shadow into the
    output. They are forgotten with the first batch that has none of them."""
    _shared: dict[str, SharedOutput] = field(default_factory=dict)
    """Subject → what another run has stored in its output meanwhile."""

    async def publish(
        self,
        messages: Sequence[Outgoing],
        *,
        site: str,
        stream: str,
        batch: str,
        on_stored: Callable[[], None] = lambda: None,
    ) -> int:
        """Store all messages, in order; all have one subject. Return the number of new ones.

        `on_stored` is called for each that is stored now, or was before.

        Raises `Fenced` when the stream at `site` accepts a later epoch, `Unpublished` when it cannot be
        reached in time or refuses for another reason (full, say).
        """
        sending = _Sending(messages, batch, on_stored)
        subject = messages[0].subject
        loop = asyncio.get_running_loop()
        try:
            self._pass_over(subject, sending)
            heard_at, sure_at, left = loop.time(), self.clock(), sending.left
            while not await self._round(sending, subject, site, stream):
                changing = sending.unheard and await self._is_changing(subject, site, stream)
                self._pass_over(subject, sending)
                if sending.left < left and not sending.is_in_doubt:
                    sure_at = self.clock()
                if not changing or sending.left < left:
                    heard_at, left = loop.time(), sending.left
                elif loop.time() - heard_at > UNHEARD_S:
                    raise Fenced(f"{subject} is accepted nowhere: {stream} is at an earlier epoch")
                if self.clock() > sure_at + self.patience_s:
                    raise Unpublished(f"{sending.left} results not stored at {site}: {sending.trouble}")
                await asyncio.sleep(CHANGING_S if changing else RETRY_S)
        finally:
            await sending.close()
        return sending.new

    async def _round(self, sending: _Sending, subject: str, site: str, stream: str) -> bool:
        """Send all pending messages once. Return False if some are left, or there is no connection."""
        try:
            connection = await self.connect()
            if subject in self._aside:
                return await sending.round(connection, aside=True)
            shared = self._shared.setdefault(subject, SharedOutput(site, stream, self.clock))
            await shared.look(connection)
            if shared.stored is not None and not sending.pass_over(shared.stored) and not shared.is_shared:
                del self._shared[subject]
            return await sending.round(connection, aside=False, is_stale=lambda: shared.is_stale)
        except (ConnectionClosedError, Unpublished, OSError, TimeoutError) as error:
            sending.cut_off(error)
            return False

    async def _is_changing(self, subject: str, site: str, stream: str) -> bool:
        """Find out where a message belongs that no stream took. Return False if the site does not answer.

        Raises `Fenced` when its epoch is over.
        """
        try:
            connection = await self.connect()
            output = await stream_view(connection, site, stream)
            if output is None:
                raise Fenced(f"{subject} is refused: there is no {stream} at {site}")
            if place_of(subject, output) is ResultStream.SHADOW:
                self._aside.add(subject)
            elif subject in self._aside:
                mark = output.metadata.get(OVERLAP, "")
                self._stored[subject] = await overlap(connection, site, stream, mark)
                self._aside.discard(subject)
        except (ConnectionClosedError, Unpublished, OSError, TimeoutError):
            return False
        return True

    def _pass_over(self, subject: str, sending: _Sending) -> None:
        """Leave out messages that the owner before has stored: the server may have forgotten their ids."""
        stored = self._stored.get(subject)
        if stored is not None and not sending.pass_over(stored):
            del self._stored[subject]


class _Sending:
    """One batch under way. It knows which messages are acknowledged."""

    def __init__(self, messages: Sequence[Outgoing], batch: str, on_stored: Callable[[], None]) -> None:
        self.messages = messages
        self.headers = {MQTT_QOS_HEADER[0]: MQTT_QOS_HEADER[1], BATCH_HEADER: batch}
        self.pending = set(range(len(messages)))
        self.new = 0
        self.unheard = False
        self.trouble = "no acknowledgement"
        self._on_stored = on_stored
        self._sender: AcknowledgedSender | None = None
        self._rounds = 0
        self._sent_through = -1
        """Index of the last message that was sent."""
        self._unacknowledged = 0
        self._progress = asyncio.Event()

    def pass_over(self, stored: Container[str]) -> bool:
        """Leave out messages that are stored already. Tell if there were any."""
        found = {index for index in self.pending if self.messages[index].identity in stored}
        self.pending -= found
        return bool(found)

    @property
    def left(self) -> int:
        return len(self.pending)

    @property
    def is_in_doubt(self) -> bool:
        """True if some messages that were sent are not yet known to be stored."""
        return min(self.pending, default=len(self.messages)) <= self._sent_through

    async def round(
        self, connection: Client, *, aside: bool, is_stale: Callable[[], bool] = lambda: False
    ) -> bool:
        """Send pending messages in order, to the output or aside. Return True when all are acknowledged."""
        self.unheard, self._unacknowledged, self._rounds = False, 0, self._rounds + 1
        sender = await self._sender_over(connection)
        reconnects = connection.stats["reconnects"]
        for count, index in enumerate(sorted(self.pending), 1):
            if self.unheard:
                break  # Keep the order: nothing may overtake a message that no stream took.
            if not connection.is_connected or connection.stats["reconnects"] != reconnects:
                return False  # Nor one that was lost with the connection.
            await self._send(sender, index, aside=aside)
            if count % BURST == 0:
                await asyncio.sleep(0)
                if is_stale():
                    await self._settle(0)  # What is under way over a slow link need not be sent twice.
                    return False
            if self._unacknowledged >= IN_FLIGHT and not await self._settle(IN_FLIGHT // 2):
                return False
        return await self._settle(0) and not self.pending

    def cut_off(self, error: Exception) -> None:
        """Note that the round ended without a connection."""
        self.unheard, self.trouble = False, str(error) or type(error).__name__

    async def close(self) -> None:
        if self._sender is not None:
            await self._sender.close()

    async def _sender_over(self, connection: Client) -> AcknowledgedSender:
        if self._sender is None or self._sender.connection is not connection:
            await self.close()
            self._sender = AcknowledgedSender(connection, self._on_acknowledgement)
            await self._sender.open()
        return self._sender

    async def _settle(self, most: int) -> bool:
        """Wait until at most `most` of this round are unacknowledged. Return False after a silence."""
        while self._unacknowledged > most and not self.unheard:
            self._progress.clear()
            try:
                await asyncio.wait_for(self._progress.wait(), SILENCE_S)
            except TimeoutError:
                return False
        return not self.unheard

    async def _send(self, sender: AcknowledgedSender, index: int, *, aside: bool) -> None:
        message = self.messages[index]
        self._unacknowledged += 1
        self._sent_through = max(self._sent_through, index)
        subject, headers = message.subject, {**self.headers, MESSAGE_ID_HEADER: message.identity}
        if aside:
            headers[MESSAGE_ID_HEADER] = shadow_id(subject, message.identity)
            headers[RESULT_ID_HEADER] = message.identity
            subject = shadow_subject(subject)
        await sender.send(subject, message.body, headers, number=index, turn=self._rounds)

    def _on_acknowledgement(self, heard: Acknowledgement) -> None:
        if heard.is_unheard:
            if heard.turn != self._rounds:
                return  # The answer to an earlier round says nothing about this one.
            self.unheard, self.trouble = True, heard.trouble
        elif not heard.is_stored:
            self.trouble = heard.trouble
        elif heard.number in self.pending:
            self.pending.discard(heard.number)
            self._unacknowledged -= 1
            self.new += not heard.is_repeated
            self._on_stored()
        self._progress.set()


class PublisherBeside(Publisher):
    """A publisher with a connection of its own, to the server and as the user of another connection.

    A connection that comes back by itself would first send what waited at the moment of a cut, past messages
    that were lost with it. This one does not come back: a new one takes its place. Close it at the end.
    """

    def __init__(self, connection: Client, name: str, *, patience_s: float) -> None:
        """`name` is the connection's, for the server's operators."""
        self._fresh = FreshConnection(login_of(connection), name)
        super().__init__(self._connection, patience_s=patience_s)

    async def _connection(self) -> Client:
        try:
            return await self._fresh.get()
        except nats.errors.Error as error:
            raise Unpublished(f"no connection: {error}") from error

    async def close(self) -> None:
        """Close the connection."""
        await self._fresh.close()


async def stream_life(connection: Client, site: str, stream: str) -> str:
    """Return the code of a stream's present life, see `life_code`. Every message id begins with it.

    Raises `Fenced` when there is no such stream, `Unpublished` when the site does not answer.
    """
    try:
        view = await stream_view(connection, site, stream, timeout_s=LIFE_S)
    except TimeoutError as error:
        raise Unpublished(f"{stream} at {site} does not answer") from error
    if view is None:
        raise Fenced(f"there is no {stream} at {site}")
    return view.life
