"""Carries a checkpoint from source to target through Redis, chunk by chunk (thesis, Algorithms 5.1 and 5.2).

A transfer is one Redis stream, `towpath:transfer:<operation>:<name>`. The name is a secret of the target, and
the coordinator tells it to the source. All sites may use such keys, and none can list them. So a third site
can neither read the state nor put other state in its place.

    begin {manifest, rest, traceparent}   all files of the complete checkpoint, with digests and sizes
    chunk {path, offset, data, crc}       at most 1 MB of a file
    end   {digest}                        digest over the complete list of files

The source never has more than `WINDOW` chunks in the stream: a chunk is deleted only when the target has it
on disk. So the store's memory stays small, whatever the size of the state. A second `begin` (the source died
and started again) restarts the target. Every entry names its attempt (`generation`), because the last entries
of a dead source may arrive after the first ones of its successor.

This is the source's end; `towpath.checkpoints.receiving` is the target's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from towpath.checkpoints.inventory import digest_of_inventory, inventory
from towpath.checkpoints.manifest import Manifest
from towpath.checkpoints.spans import TRACEPARENT, shipping
from towpath.checkpoints.transfer_keys import transfer_key
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.hooks.points import CHECKPOINT_SHIP, Items
from towpath.tasks import check_cancelled
from towpath.telemetry.tracing import traceparent

log = logging.getLogger(__name__)

CHUNK_BYTES = 1_000_000
"""At most 1 MB, as in the thesis: one lost chunk costs little, and Redis stays responsive."""

WINDOW = 8
"""Chunks in the store at a time: enough to keep source and target busy at once."""

KEEP_S = 3600
"""Redis deletes an abandoned transfer after this time."""

MANIFEST = "manifest"
"""Key in a `begin`: see `towpath.checkpoints.manifest`."""

REST = "rest"
"""Key in a `begin`: how many times as long as it works the target must rest."""

HURRIED_S, PATIENCE = 1.5, 3.0
"""After this time of work a transfer counts as long, and rests this many times as long as before.

A few seconds hardly delay the jobs that run meanwhile. A gigabyte would delay them for a minute."""

LONGEST_REST_S = 1.0
"""If a chunk took longer, it waited for a link or a store, and not for a processor."""

GROUP = "target"
POLL_S = 0.005
"""Between two looks for free room: far less than the time to write a chunk."""

RECONNECT_PAUSE_S = 0.2


@dataclass(frozen=True)
class Sent:
    """Files and bytes that a transfer moved."""

    files: int
    state_bytes: int
    inventory: dict[str, str]
    """Path → digest of all files that the target has now."""
    digest: str
    """Of the inventory."""


class Pace:
    """Rests after work, for `factor` times as long as the work took. It rests longer after much work."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self._worked_s = 0.0
        self._together_s = 0.0

    @contextmanager
    def work(self) -> Iterator[None]:
        """Count the time within as work. Leave out waiting for others."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._worked_s += time.monotonic() - begun

    async def rest(self) -> None:
        """Rest for all work since the last rest."""
        await asyncio.sleep(self.rest_s())

    def rest_s(self) -> float:
        """Return the time to rest for all work since the last call."""
        worked_s, self._worked_s = self._worked_s, 0.0
        self._together_s += worked_s
        factor = self.factor * (PATIENCE if self._together_s > HURRIED_S else 1.0)
        return min(LONGEST_REST_S, factor * worked_s)


async def send(
    redis: Redis,
    operation: str,
    checkpoint: Path,
    have: dict[str, str],
    *,
    name: str,
    generation: str,
    within_s: float,
    files_of: Callable[[Path], dict[str, str]] = inventory,
    job: str | None = None,
    rest: float = 0.0,
) -> Sent:
    """Source: put the checkpoint into the store, as fast as the target takes it.

    `files_of` lists the files that a complete copy needs. Only those travel that differ from `have` (path →
    digest at the target). `name` is what the target calls the transfer. Fault rules know the checkpoint by
    `job`. After each chunk both sides rest for
    `rest` times as long as they worked for it, because jobs that run meanwhile want processors and disks,
    too.

    Raises `TowpathError` (failed) when the target takes nothing for `within_s` seconds.
    """
    with shipping(operation, job) as span:
        sender = _Sender(redis, transfer_key(operation, name), generation, within_s, Pace(rest))
        files = await asyncio.to_thread(files_of, checkpoint)
        sent = await _send(sender, operation, checkpoint, files, have, job)
        span.set_attributes({"towpath.files": sent.files, "towpath.bytes": sent.state_bytes})
        return sent


async def _send(
    sender: _Sender,
    operation: str,
    checkpoint: Path,
    files: dict[str, str],
    have: dict[str, str],
    job: str | None,
) -> Sent:
    wanted = [path for path, digest in files.items() if have.get(path) != digest]
    digest = digest_of_inventory(files)
    current = traceparent()
    manifest = await asyncio.to_thread(_manifest, checkpoint, files, wanted)
    begin = {MANIFEST: manifest.to_json(), REST: str(sender.pace.factor)}
    await sender.restart({**begin, **({TRACEPARENT: current} if current else {})})
    state_bytes = 0
    async for entry in _chunks(checkpoint, wanted, sender.pace):
        state_bytes += len(entry["data"])
        chunks: Sequence[dict[str, Any]] = [entry]
        if CHECKPOINT_SHIP.rules:
            chunks = await CHECKPOINT_SHIP.through_async(chunks, CHUNKS, job=job, migration=operation)
        for chunk in chunks:
            await sender.add({"kind": "chunk", **chunk})
    await sender.add({"kind": "end", "digest": digest})
    await sender.drained()
    return Sent(len(wanted), state_bytes, files, digest)


def _manifest(checkpoint: Path, files: dict[str, str], wanted: list[str]) -> Manifest:
    return Manifest(files, {path: (checkpoint / path).stat().st_size for path in wanted})


CHUNKS: Items[dict[str, Any]] = Items(
    payload=lambda entry: entry["data"],
    fields=lambda entry: {"path": entry["path"], "offset": entry["offset"]},
    with_payload=lambda entry, data: {**entry, "data": data},
)
"""Fields of outgoing chunks that fault rules see. The checksum stays that of the file."""


async def _chunks(checkpoint: Path, paths: list[str], pace: Pace) -> AsyncIterator[dict[str, Any]]:
    for path in paths:
        offset, last = 0, False
        while not last:
            await pace.rest()
            with pace.work():
                data, last = await asyncio.to_thread(_read, checkpoint / path, offset)
                checksum = zlib.crc32(data)
            yield {"path": path, "offset": offset, "data": data, "crc": checksum}
            offset += len(data)


def _read(path: Path, offset: int) -> tuple[bytes, bool]:
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(CHUNK_BYTES)
        return data, offset + len(data) >= os.fstat(file.fileno()).st_size


NOT_ABOVE = "equal or smaller"
"""In Redis's refusal of an id that is not above all that there ever were in the stream."""


class _Sender:
    """The writing end: it repeats what a restart of Redis interrupts, and keeps the window."""

    def __init__(self, redis: Redis, key: str, generation: str, within_s: float, pace: Pace) -> None:
        self.pace = pace
        self.redis = redis
        self._newest = b"0-0"
        """Id of the newest entry. Only this end adds entries."""
        self.key = key
        self.generation = generation
        self.within_s = within_s
        self._alive()

    def _alive(self) -> None:
        """Begin the deadline again: the other side has done something."""
        self.end = asyncio.get_running_loop().time() + self.within_s

    async def restart(self, begin: dict[Any, Any]) -> None:
        """Delete what an earlier attempt left, and announce a new one.

        The stream is emptied, and not deleted. A new stream would number its entries by the clock, and repeat
        numbers within the same millisecond. When the target then acknowledges an entry of the earlier
        attempt, it would delete the beginning of this one.
        """

        async def attempt() -> None:
            async with self.redis.pipeline(transaction=True) as pipe:
                pipe.xtrim(self.key, maxlen=0, approximate=False)
                pipe.xadd(self.key, {"kind": "begin", "generation": self.generation, **begin})
                pipe.expire(self.key, KEEP_S)
                _, self._newest, _ = await pipe.execute()

        await self._surely(attempt)

    async def add(self, entry: dict[Any, Any]) -> None:
        """Append an entry once there is room.

        An entry whose answer was lost is not stored again: each attempt gives it the same id. No one would
        take away an end that came twice, because the target has gone by then.
        """
        await self._until_at_most(WINDOW - 1)
        marked: dict[Any, Any] = {"generation": self.generation, **entry}
        milliseconds, _, number = self._newest.decode().partition("-")
        following = f"{milliseconds}-{int(number) + 1}".encode()

        async def attempt() -> None:
            try:
                await self.redis.xadd(self.key, marked, id=following)
            except ResponseError as error:
                if NOT_ABOVE not in str(error):
                    raise

        with self.pace.work():
            await self._surely(attempt)
        self._newest = following

    async def drained(self) -> None:
        """Wait until the target has taken everything."""
        await self._until_at_most(0)

    async def _until_at_most(self, entries: int) -> None:
        before = -1
        while (now := await self._surely(lambda: self.redis.xlen(self.key))) > entries:
            if now != before:
                self._alive()
                before = now
            # Not `deadline`, which would be asked again: a target that lost its disk will never take it.
            self._check_deadline("the target does not take the state", ErrorCode.FAILED)
            await asyncio.sleep(POLL_S)

    async def _surely(self, attempt: Callable[[], Any]) -> Any:
        while True:
            check_cancelled()
            try:
                return await attempt()
            except (RedisConnectionError, RedisTimeoutError, OSError) as error:
                self._check_deadline(f"the state store is away: {error}")
                await asyncio.sleep(RECONNECT_PAUSE_S)

    def _check_deadline(self, what: str, code: ErrorCode = ErrorCode.DEADLINE) -> None:
        if asyncio.get_running_loop().time() > self.end:
            raise TowpathError(code, what, field="state_store", value=self.key)
