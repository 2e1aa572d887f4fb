"""The registry's log: every write to the registry, in order, in a stream of the hub.

A write counts once it is stored here. Redis holds what the log says, see
`towpath.coordinator.registry.replica`. Now and then a snapshot takes the place of the entries before it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import MaxPayloadError
from nats.js.api import ConsumerConfig, DeliverPolicy, StorageType, StreamConfig
from nats.js.errors import BadRequestError, NotFoundError

from towpath.contracts.data_plane import EXPECTED_LAST_HEADER, MESSAGE_ID_HEADER, REGISTRY_SUBJECTS
from towpath.contracts.errors import ErrorCode, TowpathError

STREAM = "REGISTRY"
_ENTRY, _PART, _WHOLE = (REGISTRY_SUBJECTS.replace("*", kind) for kind in ("entry", "part", "whole"))

_WRONG_LAST_SERIAL = 10071
"""The server's code for a message that expects another end of the stream."""


REQUEST_S = 5.0
ENTRY_BYTES = 7 * 1024**2
"""Bytes of a compressed entry. A message of NATS has at most eight mebibytes here."""

PART_CHARACTERS = 4 * 1024**2
"""Characters of a part of a snapshot, before it is compressed."""

RedisCommand = tuple[str, ...]
"""A command of Redis that changes the registry."""


class Moved(Exception):
    """The log does not end where this coordinator thought it did."""


@dataclass(frozen=True)
class Entry:
    """A message of the log: commands that were written together. The parts of a snapshot have none here."""

    serial: int
    id: str
    commands: list[RedisCommand]


@dataclass(frozen=True)
class Standing:
    """The present state of the log."""

    life: str
    """Time at which the stream was made: another one has other serial numbers."""
    first: int
    last: int
    """Serial number of its end; 0 if nothing was ever written."""


@dataclass(frozen=True)
class Snapshot:
    """The registry as it was when the log had come to `serial`."""

    serial: int
    commands: list[RedisCommand]
    """Commands that bring an empty Redis to that state."""


class RegistryLog:
    """The log, over a connection to the hub. Every method raises the errors of NATS while it is away."""

    def __init__(self, connection: Client) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=REQUEST_S)

    async def ensure(self, replicas: int = 1) -> None:
        """Make the stream if it does not exist, and give it so many replicas."""
        config = StreamConfig(
            name=STREAM,
            subjects=[REGISTRY_SUBJECTS],
            storage=StorageType.FILE,
            allow_direct=True,
            deny_delete=True,
            num_replicas=replicas,
        )
        try:
            await self._jetstream.add_stream(config)
        except BadRequestError:
            await self._jetstream.update_stream(config)

    async def standing(self) -> Standing:
        """Return where the log begins and ends."""
        info = await self._jetstream.stream_info(STREAM)
        return Standing(str(info.created), info.state.first_seq, info.state.last_seq)

    async def append(self, commands: Iterable[RedisCommand], id: str, after: int) -> int:
        """Store an entry directly after the serial number `after`. Return its own.

        It may be repeated with the same `id`. Raises `Moved` if the log ends elsewhere, and `TowpathError` if
        the entry is too large.
        """
        return await self._publish(_ENTRY, packed(commands), after, id)

    async def save(self, contents: Sequence[RedisCommand], after: int) -> int:
        """Store the whole registry, and drop the entries before. Return the log's new end. Raises `Moved`.

        Until the message after its parts is stored, there is no snapshot.
        """
        end = after
        for part in _parts(contents):
            end = await self._publish(_PART, packed(part), end)
        whole = json.dumps({"first": after + 1, "serial": after}).encode()
        end = await self._publish(_WHOLE, whole, end)
        await self._jetstream.purge_stream(STREAM, seq=after + 1)
        return end

    async def snapshot(self) -> Snapshot | None:
        """Return the newest whole snapshot; None if there is none."""
        try:
            found = await self._jetstream.get_last_msg(STREAM, _WHOLE)
        except NotFoundError:
            return None
        assert found.data is not None
        assert found.seq is not None
        first = json.loads(found.data)["first"]
        commands: list[RedisCommand] = []
        async for message, serial in self._messages(first, found.seq):
            if message.subject == _PART:
                commands += unpacked(message.data)
            if serial == found.seq:
                break
        return Snapshot(found.seq, commands)

    async def entries(self, after: int, through: int) -> AsyncIterator[Entry]:
        """Yield the entries `after < serial ≤ through`, in order."""
        async for message, serial in self._messages(after + 1, through):
            commands = unpacked(message.data) if message.subject == _ENTRY else []
            yield Entry(serial, (message.headers or {}).get(MESSAGE_ID_HEADER, ""), commands)

    async def _messages(self, first: int, last: int) -> AsyncIterator[tuple[Msg, int]]:
        if first > last:
            return
        config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=first)
        reading = await self._jetstream.subscribe(
            REGISTRY_SUBJECTS, stream=STREAM, ordered_consumer=True, config=config
        )
        try:
            serial = 0
            while serial < last:
                message = await reading.next_msg(timeout=REQUEST_S)
                serial = message.metadata.sequence.stream
                yield message, serial
        finally:
            await reading.unsubscribe()

    async def _publish(self, subject: str, payload: bytes, after: int, id: str | None = None) -> int:
        headers: dict[str, Any] = {EXPECTED_LAST_HEADER: str(after)}
        headers |= {MESSAGE_ID_HEADER: id} if id else {}
        try:
            stored = await self._jetstream.publish(
                subject, payload, timeout=REQUEST_S, stream=STREAM, headers=headers
            )
        except MaxPayloadError as error:
            raise TowpathError(
                ErrorCode.FAILED,
                "the hub takes no message as large as this write to the registry",
                field="max_payload",
                value=self._connection.max_payload,
                allowed="8MB",
            ) from error
        except BadRequestError as error:
            if error.err_code == _WRONG_LAST_SERIAL:
                raise Moved(subject) from error
            raise
        return stored.seq


def _parts(commands: Iterable[RedisCommand]) -> Iterator[list[RedisCommand]]:
    part: list[RedisCommand] = []
    size = 0
    for command in commands:
        part.append(command)
        size += sum(map(len, command))
        if size >= PART_CHARACTERS:
            yield part
            part, size = [], 0
    yield part


def packed(commands: Iterable[RedisCommand]) -> bytes:
    """Return commands as one message has them. Raises `TowpathError` if they are too many for one."""
    text = json.dumps([*commands], ensure_ascii=False, separators=(",", ":"))
    payload = zlib.compress(text.encode(), level=1)
    if len(payload) > ENTRY_BYTES:
        raise TowpathError(
            ErrorCode.INVALID,
            "too large for one write to the registry",
            field="bytes",
            value=len(payload),
            allowed=f"at most {ENTRY_BYTES} when compressed",
        )
    return payload


def unpacked(payload: bytes) -> list[RedisCommand]:
    """Return the commands of a message."""
    return [tuple(command) for command in json.loads(zlib.decompress(payload))]
