"""The gate of a site: other sites read its streams through it, or not at all.

A user that may make a consumer can have the server deliver what is stored to any subject, and in the name of
the server: NATS checks no permission for that. So no site may call JetStream at another one. Its requests go
to this gate, under a subject that names the reader and that only the reader's server may use. The gate passes
on what it knows to be harmless, to a reader that reads the stream for a job, an uplink or a copy.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import nats.errors
from nats.aio.msg import Msg

from towpath.bus import Bus
from towpath.bus.authenticity import Refusals
from towpath.contracts.data_plane import api_prefix, gate_prefix, inbox_prefix, mirror_delivery
from towpath.contracts.errors import TowpathError
from towpath.contracts.reading import MayRead

log = logging.getLogger(__name__)

Permits = Callable[[str, str], Awaitable[bool]]
"""Tells if a reader may read a stream. Raises `TowpathError` while that cannot be known."""

Obstacle = Callable[[str, str, bytes], Awaitable[str | None]]
"""Returns why a request may not pass, in words; None if it may: of a reader, by call and body. Raises
`TimeoutError` while that cannot be known."""

CONSUMER_CREATE = "CONSUMER.CREATE"
CONSUMER_DELETE = "CONSUMER.DELETE"
CALLS = ("STREAM.INFO", "DIRECT.GET", CONSUMER_CREATE, CONSUMER_DELETE)
"""Calls that a gate lets through, each followed by the name of the stream."""

FEEDER_NAME = re.compile(r"JS_MIRROR_\w+")
"""Names that servers give the consumers of their mirrors. Under another name, another consumer is changed."""

SERVERS_INBOX = "$JSC.R."
"""Beginning of the subjects at which servers wait for answers about their mirrors."""

GRANTED_S = 60.0
"""No one is asked again about a reader that was let through within this time."""

ASK_S = 5.0
PENDING = 64
"""Requests of one reader that may wait at once. More are dropped, and it asks again."""


@dataclass(frozen=True)
class _Request:
    reader: str
    call: str
    stream: str
    api: str
    """The call with everything behind it, as JetStream takes it."""

    @classmethod
    def of(cls, subject: str) -> _Request | None:
        """Return the request under a subject of the gate; None if no such call passes here."""
        _, _, reader, _, *rest = subject.split(".")
        call, stream = ".".join(rest[:2]), rest[2] if len(rest) > 2 else ""
        return cls(reader, call, stream, ".".join(rest)) if call in CALLS and stream else None


class Gate:
    """Passes the requests of other sites on to the JetStream of this site, or refuses them."""

    def __init__(
        self, bus: Bus, site: str, permits: Permits, own_checks: Mapping[str, Obstacle] | None = None
    ) -> None:
        """Let `permits` decide who reads a stream, but for streams that have a check of their own."""
        self._bus = bus
        self._site = site
        self._permits = permits
        self._own_checks = own_checks or {}
        self._granted: dict[tuple[str, str], float] = {}
        """Reader and stream → until when the reader passes unasked, by the monotonic clock.

        After that, it passes as long as no one can be asked: sites go on without coordinator and collector.
        """
        self._refusals = Refusals(f"gate of {site}", bus.publish)
        self._waiting: Counter[str] = Counter()
        """Reader → its requests under way. Each has its own limit, because one of them may be stolen."""

    async def open(self) -> None:
        """Take requests from now on, as long as the bus lives."""

        async def on_message(message: Msg) -> None:
            reader = message.subject.split(".")[2]
            if self._waiting[reader] < PENDING:
                self._waiting[reader] += 1
                task = asyncio.create_task(self._take(message))
                task.add_done_callback(lambda _: self._waiting.subtract([reader]))
                self._bus.own(task)

        await self._bus.connection.subscribe(f"{gate_prefix(self._site, '*')}.>", cb=on_message)

    async def _take(self, message: Msg) -> None:
        request = _Request.of(message.subject)
        why = "is no call that passes" if request is None else await self._obstacle(request, message)
        try:
            if why is None and request is not None:
                # JetStream answers the reader itself: what it asked for does not pass through here.
                call = f"{api_prefix(self._site)}.{request.api}"
                await self._bus.connection.publish(call, message.data, reply=message.reply)
            elif why:
                await self._refuse(message, why)
        except (nats.errors.Error, OSError) as error:
            log.warning("a request of %s was not passed on: %s", message.subject, error)

    async def _obstacle(self, request: _Request, message: Msg) -> str | None:
        """Return why a request may not pass, in words; None if it may; "" if that cannot be known now."""
        if not _is_inbox(message.reply, request.reader):
            # JetStream would send what is stored there, and for its receiver it would come from JetStream.
            return "wants the answer elsewhere than at an inbox of its own"
        if check := self._own_checks.get(request.stream):
            try:
                return await check(request.reader, request.api, message.data)
            except TimeoutError as error:
                log.warning("no answer about %s: %s", request.stream, error)
                return ""
        if request.call == CONSUMER_CREATE and not _feeds_a_mirror(message.data, request, self._site):
            return "makes a consumer that feeds no mirror of its own"
        if request.call == CONSUMER_DELETE and not FEEDER_NAME.fullmatch(request.api.rpartition(".")[2]):
            return "deletes a consumer that feeds no mirror"
        key, now = (request.reader, request.stream), time.monotonic()
        if self._granted.get(key, 0.0) > now:
            return None
        try:
            may = await self._permits(request.reader, request.stream)
        except TowpathError as error:
            log.warning("no one says if %s may read %s: %s", *key, error)
            return None if key in self._granted else ""
        if not may:
            self._granted.pop(key, None)
            return "reads nothing of this stream"
        self._granted[key] = now + GRANTED_S
        return None

    async def _refuse(self, message: Msg, why: str) -> None:
        _, _, reader, _, *call = message.subject.split(".")
        if _is_inbox(message.reply, reader):
            said = {"code": 403, "description": f"refused: this site {why}"}
            await self._bus.connection.publish(
                message.reply, json.dumps({"error": said}).encode(), headers={"Status": "403"}
            )
        await self._refusals.tell(".".join(call[:2]), message.subject, who=reader, why=f"it {why}")


def asking(bus: Bus, site: str) -> Permits:
    """Return a function that asks who knows of jobs and uplinks, and then who knows of copies of values."""

    async def permits(reader: str, stream: str) -> bool:
        of_jobs = MayRead(service="coordinator", site=site, reader=reader, stream=stream)
        if (await bus.request(of_jobs, deadline_s=ASK_S)).may_read:
            return True
        of_copies = MayRead(service="collector", site=site, reader=reader, stream=stream)
        return (await bus.request(of_copies, deadline_s=ASK_S)).may_read

    return permits


def _is_inbox(reply: str, reader: str) -> bool:
    """Tell if a reader, or its server, waits for an answer there."""
    return reply.startswith((f"{inbox_prefix(reader)}.", SERVERS_INBOX))


def _feeds_a_mirror(body: bytes, request: _Request, site: str) -> bool:
    """Tell if a consumer is one that the reader's server makes for a mirror, and nothing else."""
    try:
        asked: dict[str, Any] = json.loads(body)
        config: dict[str, Any] = asked["config"]
        return (
            asked["stream_name"] == request.stream
            and str(config["deliver_subject"]).startswith(f"{mirror_delivery(site, request.reader)}.")
            and FEEDER_NAME.fullmatch(config.get("name", "JS_MIRROR_unnamed")) is not None
            and config.get("ack_policy") == "none"
            and not config.keys() & {"durable_name", "deliver_group"}
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False
