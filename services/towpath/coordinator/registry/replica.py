"""Redis as the registry's log says: what reads the registry reads here, and what writes it writes both.

A write is stored in the log first. Then it is applied to Redis in the log's order, together with its place in
the log. So a coordinator sees how far a Redis has come, and applies what is missing: after a power cut, after
a restore from an old copy, and to an empty Redis on another machine.

Writes may be repeated: after a lost answer a command is applied again, and changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar

import nats.errors
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import (
    BusyLoadingError,
    ConnectionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
    WatchError,
)

from towpath.checkpoints.transfer_keys import TRANSFERS
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import Identifier, Model, new_identifier
from towpath.coordinator.registry.contents import APPLIED, LEADER, contents, registry_keys, replacing
from towpath.coordinator.registry.log import Entry, Moved, RedisCommand, RegistryLog, Standing

log = logging.getLogger(__name__)

DISK_FULL, MEMORY_FULL = "MISCONF", "OOM"
"""Beginnings of answers of a Redis that takes no writes: it cannot write its file, or has no memory left."""


class DiskFull(Exception):
    """Error: Redis takes no writes until its disk has room again."""


class MemoryFull(Exception):
    """Error: Redis takes no writes until something is deleted."""


REDIS_AWAY = (ConnectionError, TimeoutError, BusyLoadingError, ReadOnlyError, OSError)
"""Errors while Redis restarts."""

AWAY = (*REDIS_AWAY, DiskFull, MemoryFull, WatchError, nats.errors.Error, asyncio.TimeoutError)
"""Errors while Redis or the hub's server restarts, a disk is full, or another coordinator writes. A later
attempt helps."""

MOST_PAUSE_S = 1.0

ENOUGH = 1024**2
"""Characters of an entry of the log. Writes that wait are stored in one, which is synced once for all."""

SNAPSHOT_EVERY = 10_000
"""Entries of the log after which a snapshot takes their place. To apply them all takes some seconds."""

T = TypeVar("T")


def _wanted() -> None:
    """The check of a write that is wanted in any case."""


@dataclass
class _Write:
    """Commands that are written together, and their answers."""

    commands: Sequence[RedisCommand]
    check: Callable[[], None]
    """Raises if the write is no longer wanted."""
    size: int
    """Characters of the commands."""
    answers: asyncio.Future[list[Any]]
    context: Context = field(default_factory=copy_context)
    """The context in which `check` knows its sender."""


@dataclass(frozen=True)
class _Place:
    """A place in the log."""

    life: str
    serial: int

    def __str__(self) -> str:
        return f"{self.serial} {self.life}"

    @classmethod
    def of(cls, text: Any) -> _Place | None:
        serial, _, life = (text or "").partition(" ")
        return cls(life, int(serial)) if serial else None


class Term(Model):
    """A coordinator's term, as it stands in the log: the one with the highest number leads."""

    number: int = 0
    coordinator: str = ""
    id: Identifier = "none"
    """One of several that began the same term at once."""


class Replica:
    """Writes to the log and to Redis, and keeps Redis where the log is.

    What a coordinator finds in the log before it writes tells it whether another one leads by now. Then it
    writes no more.
    """

    def __init__(self, redis: Redis, registry_log: RegistryLog) -> None:
        self._redis = redis
        self._log = registry_log
        self._writing = asyncio.Lock()
        """Held by the one that stores what waits, its own write and those of others."""
        self._waiting: list[_Write] = []
        self._place: _Place | None = None
        """The end of the log, as far as this coordinator knows. Redis has everything up to it."""
        self._snapshot_at = 0
        self._leads: Term | None = None
        """The term that this coordinator has begun; None: it writes without leading, as tests do."""
        self._leader = Term()
        """The term under way, as far as this coordinator knows."""
        self.made_room: deque[str] = deque(maxlen=100)
        """Keys that were deleted because Redis was full, the newest, until someone takes them from here."""
        self.superseded = asyncio.Event()
        """Set when another coordinator leads. From then on nothing is written here, and no write returns."""

    async def bring_up(self) -> None:
        """Apply to Redis what it misses of the log. Waits while one of both is away."""
        async with self._writing:
            await self._patiently(self._catch_up)

    async def lead(self, coordinator: str, above: int = 0) -> int:
        """Begin a term with a number `above` this one. Return its number."""
        await self.bring_up()
        number = max(self._leader.number, above) + 1
        self._leads = Term(number=number, coordinator=coordinator, id=new_identifier())
        await self.write(("SET", LEADER, self._leads.model_dump_json()))
        self._leader = self._leads
        return number

    async def contents(self) -> list[RedisCommand]:
        """Return commands that write the whole registry, as it is between two writes."""
        async with self._writing:
            await self._patiently(self._catch_up)
            return await self._patiently(lambda: contents(self._redis))

    async def write(self, *commands: RedisCommand, check: Callable[[], None] = _wanted) -> list[Any]:
        """Write commands together, and return the answers of Redis. Waits while it or the hub is away.

        `check` is called before they are stored, perhaps more than once; what it raises ends the attempt.
        Raises `TowpathError` if they are too large for the log.
        """
        if not commands:
            return []
        size = sum(len(part) for command in commands for part in command)
        write = _Write(commands, check, size, asyncio.get_running_loop().create_future())
        self._waiting.append(write)
        try:
            while not write.answers.done():
                async with self._writing:
                    if not write.answers.done():
                        await self._patiently(self._commit)
        finally:
            if write in self._waiting:  # Cancelled.
                self._waiting.remove(write)
        return write.answers.result()

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        async def attempt() -> T:
            try:
                return await work()
            except MemoryFull:
                await self._make_room()
                raise

        return await patiently(attempt, AWAY)

    async def _make_room(self) -> None:
        """Delete all state on its way. There is little of it, unless a site fills the store.

        It is sent again. Writes cannot wait for it: a coordinator that starts would never lead.
        """
        found = [key async for key in self._redis.scan_iter(match=f"{TRANSFERS}*", count=1000)]
        for key in found:
            await self._redis.unlink(key)
        self.made_room += found
        log.warning("Redis was full: %d keys with state on its way are deleted", len(found))

    async def _commit(self) -> None:
        """Store some of the writes that wait, apply them, and answer them."""
        async with self._redis.pipeline(transaction=True) as redis:
            await redis.watch(APPLIED)
            if self._place is None or _Place.of(await redis.get(APPLIED)) != self._place:
                await self._catch_up()
                return
            batch = self._next_batch()
            commands = [command for write in batch for command in write.commands]
            if not commands:
                return
            for write in batch:
                write.check = _wanted  # From here on it may be stored, whatever becomes of this attempt.
            id, end = new_identifier(), self._place.serial
            try:
                serial = await self._patiently(lambda: self._log.append(commands, id, end))
            except Moved:
                # It was stored after all, or another coordinator has written: then this is tried again.
                answers = (await self._patiently(self._catch_up)).get(id)
            except TowpathError as error:
                answers = [error] * len(commands)
            else:
                answers = await self._applied(redis, Entry(serial, id, commands))
        if answers is not None:
            self._answer(batch, answers)
        if self._place is not None and self._place.serial - self._snapshot_at >= SNAPSHOT_EVERY:
            await self._save_snapshot()

    def _next_batch(self) -> list[_Write]:
        """Return the next writes. Those that are no longer wanted are answered with the reason."""
        batch: list[_Write] = []
        for write in [*self._waiting]:
            try:
                write.context.run(write.check)
            except TowpathError as error:
                self._waiting.remove(write)
                write.answers.set_exception(error)
                continue
            if batch and sum(each.size for each in (*batch, write)) > ENOUGH:
                break
            batch.append(write)
        return batch

    def _answer(self, batch: list[_Write], answers: list[Any]) -> None:
        for write in batch:
            count = len(write.commands)
            own, answers = answers[:count], answers[count:]
            if write in self._waiting:  # Else it was cancelled meanwhile.
                self._waiting.remove(write)
                failed = next((answer for answer in own if isinstance(answer, Exception)), None)
                write.answers.set_exception(failed) if failed else write.answers.set_result(own)

    async def _applied(self, redis: Pipeline, entry: Entry) -> list[Any]:
        """Apply an entry that was just stored, and return the answers.

        `redis` has watched since before that no one else applies any.
        """
        assert self._place is not None
        place = _Place(self._place.life, entry.serial)
        try:
            answers = await _together(redis, entry.commands, place)
        except AWAY:
            found = await self._patiently(self._catch_up)
            # If it is not found, Redis has applied it, and its answer was lost.
            return found.get(entry.id) or await self._patiently(lambda: self._repeated(entry.commands))
        self._place = place
        return answers

    async def _repeated(self, commands: Sequence[RedisCommand]) -> list[Any]:
        async with self._redis.pipeline(transaction=True) as redis:
            return await _together(redis, commands, None)

    async def _catch_up(self) -> dict[str, list[Any]]:
        """Bring Redis to the end of the log. Return the answers to what was missing, by the entries' ids."""
        standing = await self._log.standing()
        place = _Place.of(await self._redis.get(APPLIED))
        if standing.last == 0 or (place and place.life == standing.life and place.serial > standing.last):
            # The log is new, or has lost its end. This Redis is what there is.
            self._place = _Place(standing.life, standing.last)
            await self._see_leader()
            await self._save_snapshot()
            return {}
        if place is None or place.life != standing.life or place.serial < standing.first - 1:
            place = await self._restore(standing)
        answers: dict[str, list[Any]] = {}
        async for entry in self._log.entries(place.serial, standing.last):
            async with self._redis.pipeline(transaction=True) as redis:
                await redis.watch(APPLIED)
                if _Place.of(await redis.get(APPLIED)) != place:
                    raise WatchError("another coordinator applies the log")
                place = _Place(place.life, entry.serial)
                answers[entry.id] = await _together(redis, entry.commands, place)
        self._place = place
        await self._see_leader()
        return answers

    async def _see_leader(self) -> None:
        """Read who leads. Wait without end if another coordinator does."""
        text = await self._redis.get(LEADER)
        self._leader = Term.from_json(text) if text else Term()
        if self._leads is None or self._leader == self._leads or self._leader.number < self._leads.number:
            return
        log.warning("%s leads in term %d", self._leader.coordinator, self._leader.number)
        self.superseded.set()
        await asyncio.Event().wait()

    async def _restore(self, standing: Standing) -> _Place:
        """Replace what is in Redis by the log's newest snapshot."""
        snapshot = await self._log.snapshot()
        place = _Place(standing.life, snapshot.serial if snapshot else 0)
        keys = await registry_keys(self._redis)
        log.warning("the registry is restored from its log: Redis had %d keys", len(keys))
        async with self._redis.pipeline(transaction=True) as redis:
            await _together(redis, [*replacing(keys, snapshot.commands if snapshot else [])], place)
        self._snapshot_at = place.serial
        return place

    async def _save_snapshot(self) -> None:
        """Store all that Redis has in the log, in the place of the entries so far."""
        assert self._place is not None
        try:
            leader = await self._redis.get(LEADER)
            whole = [*await contents(self._redis), *([("SET", LEADER, leader)] if leader else [])]
            end = await self._log.save(whole, self._place.serial)
        except Moved:
            self._place = None  # Another coordinator writes.
            return
        self._place = _Place(self._place.life, end)
        self._snapshot_at = end
        async with self._redis.pipeline(transaction=True) as redis:
            await _together(redis, [], self._place)


async def patiently(
    work: Callable[[], Awaitable[T]],
    away: tuple[type[Exception], ...],
    before_next: Callable[[], Awaitable[None]] | None = None,
) -> T:
    """Repeat work until it raises none of these errors. `before_next` runs before each repetition."""
    pause_s = 0.05
    while True:
        try:
            return await work()
        except away as error:
            log.warning("the registry waits %.2f s: %s: %s", pause_s, type(error).__name__, error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, MOST_PAUSE_S)
        if before_next is not None:
            await before_next()


async def _together(redis: Pipeline, commands: Sequence[RedisCommand], place: _Place | None) -> list[Any]:
    """Run commands in one transaction of Redis, and write how far in the log it has come. Return the answers.

    The answer to a command that fails is its error. Raises `DiskFull` or `MemoryFull` if one was refused for
    want of room.
    """
    redis.multi()
    for command in commands:
        redis.execute_command(*command)
    if place is not None:
        redis.set(APPLIED, str(place))
    try:
        answers = await redis.execute(raise_on_error=False)
    except ResponseError as error:  # It was refused as a whole.
        _check_room(error)
        raise
    for answer in answers:
        _check_room(answer)
    return answers[: len(commands)]


_REASON = re.compile(r".*(?:caused error: \(['\"]|because of: )", re.DOTALL)
"""Words of the library and of Redis before the reason for which a transaction is refused."""


def _check_room(answer: Any) -> None:
    if not isinstance(answer, ResponseError):
        return
    reason = _REASON.sub("", str(answer))
    if isinstance(answer, OutOfMemoryError) or reason.startswith(MEMORY_FULL):
        raise MemoryFull(MEMORY_FULL) from answer
    if reason.startswith(DISK_FULL):
        raise DiskFull(DISK_FULL) from answer
