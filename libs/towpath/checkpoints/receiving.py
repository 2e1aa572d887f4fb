"""The target's end of a transfer. `towpath.checkpoints.transfer` has the entries and their order."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from towpath.checkpoints.inventory import digest_of_inventory, inventory
from towpath.checkpoints.manifest import Manifest, manifest_of
from towpath.checkpoints.spans import TRACEPARENT, Receiving
from towpath.checkpoints.transfer import (
    GROUP,
    MANIFEST,
    POLL_S,
    RECONNECT_PAUSE_S,
    REST,
    WINDOW,
    Pace,
)
from towpath.checkpoints.transfer_keys import transfer_key
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.tasks import check_cancelled, to_the_end

log = logging.getLogger(__name__)


async def receive(
    redis: Redis, operation: str, staging: Path, base: Path, *, name: str, consumer: str
) -> str:
    """Target: take the checkpoint from the store into `staging`. Return its digest.

    `name` is what this target calls the transfer. Files that were not sent come from `base`, an older copy.
    It runs until a transfer is complete and correct, through restarts of store and source. Cancel it
    to give up.

    Raises `TowpathError` when what arrives is not what was announced, or leads out of `staging`. The entry
    stays in the store, so that the source does not take it for delivered.
    """
    receiver = Receiver(redis, transfer_key(operation, name), staging, base, consumer)
    try:
        while True:
            check_cancelled()
            try:
                for identifier, entry in await receiver.next_entries():
                    with receiver.pace.work():
                        complete = await receiver.take(entry)
                        await receiver.acknowledge(identifier)
                    if complete is not None:
                        receiver.span.end()
                        return complete
                    await receiver.pace.rest()
            except (RedisError, OSError):
                await asyncio.sleep(RECONNECT_PAUSE_S)
    finally:
        receiver.span.end("given up")


class Receiver:
    """The reading end: every chunk is on disk before it is acknowledged."""

    def __init__(self, redis: Redis, key: str, staging: Path, base: Path, consumer: str) -> None:
        self.redis = redis
        self.key = key
        self.staging = staging
        self.base = base
        self.consumer = consumer
        self.span = Receiving()
        self.pace = Pace(0.0)
        self.attempt = staging.with_name(staging.name + ".attempt")
        """File with the attempt in the staging directory and its manifest. It survives the target's death."""
        self._under_way: tuple[str, Manifest] | None = None

    async def next_entries(self) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """Return new entries, first those that this consumer took before a crash and never acknowledged."""
        try:
            for start in ("0", ">"):
                block = None if start == "0" else 500
                reply = await self.redis.xreadgroup(
                    GROUP, self.consumer, {self.key: start}, count=WINDOW, block=block
                )
                entries, gone = _entries(reply)
                if gone:
                    await self.redis.xack(self.key, GROUP, *gone)
                if entries or gone:
                    return entries
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            await self._create_group()
        return []

    async def _create_group(self) -> None:
        # Without MKSTREAM, because the source makes the stream.
        try:
            await self.redis.xgroup_create(self.key, GROUP, id="0")
        except ResponseError:
            await asyncio.sleep(POLL_S * 4)

    async def take(self, entry: dict[bytes, bytes]) -> str | None:
        """Write one entry to disk. Return the digest when the transfer is complete."""
        try:
            return await self._take(entry)
        except (KeyError, ValueError) as error:
            raise TowpathError(ErrorCode.NOT_ALLOWED, f"not an entry of a transfer: {error!r}") from error

    async def _take(self, entry: dict[bytes, bytes]) -> str | None:
        kind, generation = entry[b"kind"], entry[b"generation"].decode()
        if kind == b"begin":
            self.pace = Pace(float(entry.get(REST.encode(), b"0")))
            self.span.begin(entry.get(TRACEPARENT.encode(), b"").decode() or None)
            manifest = manifest_of(entry.get(MANIFEST.encode(), b"").decode())
            await to_the_end(asyncio.to_thread(self._prepare, manifest, generation))
            return None
        manifest = await asyncio.to_thread(self._announced, generation)
        if manifest is None:
            log.info("an entry of an earlier attempt is left out")
        elif kind == b"chunk":
            await self._chunk(manifest, entry)
        else:
            return await self._completed(manifest, entry[b"digest"].decode())
        return None

    async def _chunk(self, manifest: Manifest, entry: dict[bytes, bytes]) -> None:
        data, path, offset = entry[b"data"], entry[b"path"].decode(), int(entry[b"offset"])
        if zlib.crc32(data) != int(entry[b"crc"]):
            raise OSError("a chunk arrived damaged")
        manifest.check_chunk(path, offset, len(data))
        await to_the_end(asyncio.to_thread(_write, self.staging / path, offset, data))
        self.span.took(len(data))

    async def _completed(self, manifest: Manifest, digest: str) -> str:
        arrived = await asyncio.to_thread(inventory, self.staging)
        if not digest_of_inventory(manifest.files) == digest_of_inventory(arrived) == digest:
            raise TowpathError(ErrorCode.FAILED, "the state that arrived is not the state that was sent")
        return digest

    def _prepare(self, manifest: Manifest, generation: str) -> None:
        """Keep files of the staging directory that the source will not send.

        Link others from the older copy.
        """
        files, self._under_way = manifest.files, None
        self.attempt.unlink(missing_ok=True)
        self.staging.mkdir(parents=True, exist_ok=True)
        staged, have = inventory(self.staging), inventory(self.base)
        for path in staged:
            if staged[path] != files.get(path):
                (self.staging / path).unlink()
        manifest.check_room(shutil.disk_usage(self.staging).free, staged)
        for path, digest in files.items():
            if have.get(path) == digest != staged.get(path):
                target = self.staging / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                # No one changes a file of a checkpoint in place, so a link is a copy.
                os.link(self.base / path, target)
        self.attempt.write_text(f"{generation}\n{manifest.to_json()}")

    def _announced(self, generation: str) -> Manifest | None:
        """Return the manifest of the attempt under way. None if these are not its entries."""
        if self._under_way is None and self.attempt.exists():
            attempt, _, announced = self.attempt.read_text().partition("\n")
            self._under_way = attempt, manifest_of(announced)
        if self._under_way is None or self._under_way[0] != generation:
            return None
        return self._under_way[1]

    async def acknowledge(self, identifier: bytes) -> None:
        """Make room in the store, because the entry is safe here."""
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.xack(self.key, GROUP, identifier)
            pipe.xdel(self.key, identifier)
            await pipe.execute()


def _entries(reply: Any) -> tuple[list[tuple[bytes, dict[bytes, bytes]]], list[bytes]]:
    """Return the entries of a one-stream XREADGROUP reply of any protocol version.

    The second list has entries that were taken before and are gone, because the source started again.
    """
    if not reply:
        return [], []
    streams = list(reply.values()) if isinstance(reply, dict) else [entries for _, entries in reply]
    pairs: list[Any] = streams[0]
    while pairs and isinstance(pairs[0], list) and pairs[0] and isinstance(pairs[0][0], tuple | list):
        pairs = pairs[0]
    entries = [(identifier, fields) for identifier, fields in pairs if fields]
    return entries, [identifier for identifier, fields in pairs if not fields]


def _write(path: Path, offset: int, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(offset)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
