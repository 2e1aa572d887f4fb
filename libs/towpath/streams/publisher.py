"""Publishes a job's results into its output stream: each stored once, or an error.

Every message has an id made from what identifies the result, so the stream drops what a repeated
micro-batch, or a second owner, publishes again. The subject carries the epoch; a stream accepts the
current epoch only, so a former owner is refused by the server.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from towpath.contracts.data_plane import (
    BATCH_HEADER,
    DIVERTED,
    MESSAGE_ID_HEADER,
    MQTT_QOS_HEADER,
    OVERLAP,
    RESULT_ID_HEADER,
    api_prefix,
    epochs_of,
    life_code,
    shadow_id,
    shadow_subject,
)
from towpath.streams.failures import Fenced, Unpublished
from towpath.streams.pages import overlap

log = logging.getLogger(__name__)

IN_FLIGHT = 4000
"""Unacknowledged messages at a time: a few megabytes, enough to hide a link's round trip."""

SILENCE_S = 3.0
"""Without any acknowledgement for so long, what is unacknowledged is sent again."""

RETRY_S = 0.2
"""Between attempts while a site is out of reach."""

CHANGING_S = 0.02
"""Between attempts while the ownership of the output is changing hands: a matter of milliseconds."""


UNHEARD_S = 20.0
"""So long an epoch may be accepted nowhere: the output's agent may die while ownership changes hands, and
is back in seconds. After that nobody is about to accept it, and the coordinator must see that."""


@dataclass(frozen=True)
class Outgoing:
    """One message to store."""

    subject: str
    identity: str
    body: bytes


@dataclass
class Publisher:
    """Publishes batches over one connection; use from the loop the connection belongs to.

    While two sites run a job, the output stream does not accept the epoch of one or both, and a shadow
    stream takes their results: the publisher goes where its epoch is heard.
    """

    connection: Client
    patience_s: float = 60.0
    """How long a batch is tried before it fails: longer than a broker's restart, shorter than a day."""
    _aside: set[str] = field(default_factory=set)
    """Subjects whose messages go to the shadow at present."""
    _stored: dict[str, set[str]] = field(default_factory=dict)
    """Subject → ids that the owner before has stored: for a subject that has come from the shadow into the
    output. Forgotten with the first batch that has none of them."""

    async def publish(self, messages: Sequence[Outgoing], *, site: str, stream: str, batch: str) -> int:
        """Store all messages, in order; all have one subject. Returns how many were new.

        Raises `Fenced` when the stream at `site` accepts a later epoch, `Unpublished` when it cannot be
        reached in time or refuses for another reason (full, say).
        """
        sending = _Sending(self.connection, messages, batch)
        subject = messages[0].subject
        loop = asyncio.get_running_loop()
        end = loop.time() + self.patience_s
        try:
            await sending.open()
            self._pass_over(subject, sending)
            heard_at, left = loop.time(), sending.left
            while not await sending.round(aside=subject in self._aside):
                changing = sending.unheard and await self._is_changing(subject, site, stream)
                self._pass_over(subject, sending)
                if not changing or sending.left < left:
                    heard_at, left = loop.time(), sending.left
                elif loop.time() - heard_at > UNHEARD_S:
                    raise Fenced(f"{subject} is accepted nowhere: {stream} is at an earlier epoch")
                if loop.time() > end:
                    raise Unpublished(f"{sending.left} results not stored at {site}: {sending.trouble}")
                await asyncio.sleep(CHANGING_S if changing else RETRY_S)
        finally:
            await sending.close()
        return sending.new

    async def _is_changing(self, subject: str, site: str, stream: str) -> bool:
        """Nobody took the message: find out where it belongs. False if the site does not answer.

        Raises `Fenced` when its epoch is over.
        """
        config = await stream_config(self.connection, site, stream)
        if config is None:
            return False
        subjects, marks = config.get("subjects", []), config.get("metadata") or {}
        [mine], accepted = epochs_of([subject]), epochs_of(subjects)
        diverted = marks.get(DIVERTED) == str(mine)
        if subject in subjects:
            if subject in self._aside:
                self._stored[subject] = await overlap(self.connection, site, stream, marks.get(OVERLAP, ""))
                self._aside.discard(subject)
        elif diverted or (accepted and max(accepted) < mine):
            self._aside.add(subject)
        else:
            raise Fenced(f"{subject} is refused: {stream} accepts {', '.join(subjects)}")
        return True

    def _pass_over(self, subject: str, sending: _Sending) -> None:
        """Leave out what the owner before has stored, whether or not the server remembers its id."""
        stored = self._stored.get(subject)
        if stored is not None and not sending.pass_over(stored):
            del self._stored[subject]


class _Sending:
    """One batch under way: what is acknowledged, what is not."""

    def __init__(self, connection: Client, messages: Sequence[Outgoing], batch: str) -> None:
        self.connection = connection
        self.messages = messages
        self.headers = {MQTT_QOS_HEADER[0]: MQTT_QOS_HEADER[1], BATCH_HEADER: batch}
        self.pending = set(range(len(messages)))
        self.new = 0
        self.unheard = False
        self._rounds = 0
        self._unacknowledged = 0
        self.trouble = "no acknowledgement"
        self._inbox = connection.new_inbox()
        self._progress = asyncio.Event()

    def pass_over(self, stored: set[str]) -> bool:
        """Leave out messages that are stored already. Whether there were any."""
        found = {index for index in self.pending if self.messages[index].identity in stored}
        self.pending -= found
        return bool(found)

    @property
    def left(self) -> int:
        return len(self.pending)

    async def open(self) -> None:
        self._subscription = await self.connection.subscribe(
            f"{self._inbox}.*.*",
            cb=self._on_acknowledgement,
            pending_msgs_limit=-1,
            pending_bytes_limit=-1,
        )

    async def close(self) -> None:
        if not self.connection.is_closed:
            await self._subscription.unsubscribe()

    async def round(self, *, aside: bool) -> bool:
        """Send what is pending, in order, to the output or aside. True when everything is acknowledged."""
        self.unheard, self._unacknowledged, self._rounds = False, 0, self._rounds + 1
        connections = self.connection.stats["reconnects"]
        for index in sorted(self.pending):
            if self.unheard:
                break  # Keep the order: nothing may overtake a message that nobody took.
            if not self.connection.is_connected or self.connection.stats["reconnects"] != connections:
                return False  # Nor one that was lost with the connection.
            await self._send(index, aside=aside)
            if self._unacknowledged >= IN_FLIGHT and not await self._settle(IN_FLIGHT // 2):
                return False
        return await self._settle(0) and not self.pending

    async def _settle(self, most: int) -> bool:
        """Wait until at most `most` of this round are unacknowledged; false after a silence."""
        while self._unacknowledged > most and not self.unheard:
            self._progress.clear()
            try:
                await asyncio.wait_for(self._progress.wait(), SILENCE_S)
            except TimeoutError:
                return False
        return not self.unheard

    async def _send(self, index: int, *, aside: bool) -> None:
        message = self.messages[index]
        self._unacknowledged += 1
        subject, headers = message.subject, {**self.headers, MESSAGE_ID_HEADER: message.identity}
        if aside:
            headers[MESSAGE_ID_HEADER] = shadow_id(subject, message.identity)
            headers[RESULT_ID_HEADER] = message.identity
            subject = shadow_subject(subject)
        reply = f"{self._inbox}.{self._rounds}.{index}"
        await self.connection.publish(subject, message.body, reply=reply, headers=headers)

    async def _on_acknowledgement(self, message: Msg) -> None:
        _, round_, number = message.subject.rsplit(".", 2)
        index = int(number)
        if (message.headers or {}).get("Status") == "503":
            if int(round_) == self._rounds:  # An earlier round's says nothing about this one.
                self.unheard, self.trouble = True, "nobody stores this subject"
                self._progress.set()
            return
        answer = json.loads(message.data)
        if "error" in answer:
            self.trouble = answer["error"].get("description", "refused")
        elif index in self.pending:
            self.pending.discard(index)
            self._unacknowledged -= 1
            self.new += not answer.get("duplicate", False)
        self._progress.set()


async def stream_life(connection: Client, site: str, stream: str, *, timeout_s: float = 10.0) -> str:
    """The code of a stream's present life, see `life_code`. It begins every message id.

    Raises `Fenced` when there is no such stream, `Unpublished` when the site does not answer.
    """
    subject = f"{api_prefix(site)}.STREAM.INFO.{stream}"
    try:
        answer = await connection.request(subject, b"", timeout=timeout_s)
    except (nats.errors.Error, TimeoutError) as error:
        raise Unpublished(f"{stream} at {site} does not answer") from error
    body = json.loads(answer.data)
    if "error" in body:
        raise Fenced(f"there is no {stream} at {site}")
    return life_code(body["created"])


async def stream_config(connection: Client, site: str, stream: str, *, timeout_s: float = 5.0) -> dict | None:
    """Configuration of a stream at a site, or None when the site does not answer.

    A stream that does not exist gives an empty configuration: it accepts nothing.
    """
    try:
        answer = await connection.request(f"{api_prefix(site)}.STREAM.INFO.{stream}", b"", timeout=timeout_s)
    except (nats.errors.Error, TimeoutError):
        return None
    body = json.loads(answer.data)
    if "error" in body:
        return {"subjects": []} if body["error"].get("err_code") == 10059 else None
    return body["config"]
