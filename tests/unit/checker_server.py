"""The parts of a site's nats-server that the data path uses, in memory: streams, ids, epochs, subscribers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from nats.aio.msg import Msg

from towpath.contracts.data_plane import MESSAGE_ID_HEADER

Callback = Callable[[Msg], Awaitable[None]]


@dataclass
class Stream:
    """A stream that never expires anything."""

    name: str
    subjects: list[str]
    life: int = 0
    remembers: bool = True
    """True if it drops repeated ids."""
    metadata: dict[str, str] = field(default_factory=dict)
    messages: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def info(self) -> dict[str, Any]:
        created = hashlib.blake2b(bytes([self.life]), digest_size=4).hexdigest()
        return {
            "created": created,
            "config": {"subjects": self.subjects, "metadata": self.metadata},
            "state": {"last_seq": len(self.messages)},
        }


class _Subscription:
    async def unsubscribe(self) -> None:
        pass


class Server:
    """The client of it as well: what is published is stored, and answered, at once."""

    is_closed = False
    options = {"user": "jfk.engine"}
    is_connected = True
    stats = {"reconnects": 0}

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.delivered: list[tuple[int, bytes]] = []
        """Messages that the MQTT side has sent to the output's one subscriber: place and payload."""
        self.output = ""
        self._sent: set[str] = set()
        self._callbacks: dict[str, Callback] = {}
        self._inboxes = 0

    def forget_ids(self) -> None:
        """The duplicate windows of the streams, and of the MQTT side, are over."""
        self._sent.clear()
        for stream in self.streams.values():
            stream.ids.clear()

    def new_inbox(self) -> str:
        self._inboxes += 1
        return f"_INBOX.{self._inboxes}"

    async def subscribe(self, subject: str, *, cb: Callback, **_: Any) -> _Subscription:
        self._callbacks[subject.removesuffix(".*.*")] = cb
        return _Subscription()

    async def request(self, subject: str, body: bytes, *, timeout: float) -> Msg:
        stream = self.streams[subject.rsplit(".", 1)[-1]]
        return self._message("", json.dumps(stream.info()).encode(), None)

    async def publish(
        self, subject: str, body: bytes, *, reply: str, headers: dict[str, str] | None = None
    ) -> None:
        if ".DIRECT.GET." in subject:
            await self._send_page(subject, body, reply)
            return
        answer = self._callbacks[reply.rsplit(".", 2)[0]]
        stream = next((each for each in self.streams.values() if subject in each.subjects), None)
        if stream is None:
            await answer(self._message(reply, b"", {"Status": "503"}))
        else:
            stored = json.dumps(self._store(stream, subject, headers or {}, body)).encode()
            await answer(self._message(reply, stored, None))

    def _store(self, stream: Stream, subject: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
        identity = headers.get(MESSAGE_ID_HEADER)
        if identity is not None and identity in stream.ids:
            return {"seq": len(stream.messages), "duplicate": True}
        if identity is not None and stream.remembers:
            stream.ids.add(identity)
        stream.messages.append((subject, headers, body))
        if stream.name == self.output:
            self._deliver(len(stream.messages), identity if stream.remembers else None, body)
        return {"seq": len(stream.messages)}

    def _deliver(self, serial: int, identity: str | None, body: bytes) -> None:
        """The MQTT side remembers ids of its own, across the lives of a stream."""
        if identity is None or identity not in self._sent:
            self.delivered.append((serial, body))
        if identity is not None:
            self._sent.add(identity)

    async def _send_page(self, subject: str, request: bytes, reply: str) -> None:
        wanted, send = json.loads(request), self._callbacks[reply]
        stream = self.streams[subject.rsplit(".", 1)[-1]]
        first = wanted["seq"]
        for serial, (kept, headers, body) in enumerate(stream.messages, start=1):
            if first <= serial < first + wanted["batch"]:
                place = {"Nats-Sequence": str(serial), "Nats-Subject": kept}
                await send(self._message(reply, body, headers | place))
        await send(self._message(reply, b"", {"Status": "204"}))

    def _message(self, subject: str, body: bytes, headers: dict[str, str] | None) -> Msg:
        return Msg(_client=self, subject=subject, reply="", data=body, headers=headers)  # type: ignore[arg-type]
