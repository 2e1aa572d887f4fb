"""The registry in Redis: jobs, operations, journals. Waits through restarts of Redis.

Keys: `towpath:jobs` (name → entry), `towpath:former` (name → remains of a removed job),
`towpath:locks` (job → operation under way), `towpath:operation:<id>`, `towpath:journal:<id>`,
`towpath:operations` (by time), `towpath:unfinished`, `towpath:aborts` (operations to roll back),
`towpath:command:<id>` (→ operation).
"""

from __future__ import annotations

import asyncio
import builtins
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from towpath.bus.deadlines import check_in_time
from towpath.contracts.commands import JournalEntry, OperationKind
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.coordinator.registry.contents import PREFIX, UNDER_WAY, registry_keys, replacing
from towpath.coordinator.registry.log import RedisCommand, RegistryLog
from towpath.coordinator.registry.replica import REDIS_AWAY, Replica, patiently
from towpath.coordinator.registry.scripts import ADOPT, APPEND, BEGIN, FINISH, REQUEST
from towpath.coordinator.registry.stored_form import entry_text, record_text
from towpath.coordinator.settings import CoordinatorSettings
from towpath.protocols.record import FormerJob, JobEntry, OperationRecord, RegistryChange
from towpath.protocols.runner import Superseded

log = logging.getLogger(__name__)


JOBS, FORMER, LOCKS = f"{PREFIX}jobs", f"{PREFIX}former", f"{PREFIX}locks"
OPERATIONS, UNFINISHED = f"{PREFIX}operations", f"{PREFIX}unfinished"
ABORTS, FINISHES = f"{PREFIX}aborts", f"{PREFIX}finishes"

COMMAND_REMEMBERED_S = 7 * 24 * 3600
"""Time for which a repeated command is recognised, if its operation is kept that long."""

OPERATIONS_KEPT = 250
"""Ended deploys, updates and removes that are kept with their journals, the newest. One takes as much room as
three jobs, and a pipeline makes hundreds. The pipeline's newest apply has the outcome of each as well."""

MIGRATIONS_KEPT = 2000
"""Ended migrations that are kept: forecasts learn from their figures."""

FORGET_EVERY = 50
"""Operations that end between two searches for old ones. So many more may be kept for a while."""

QUERY_S = 10.0
"""Time for a question to a registry that may be restarting."""

T = TypeVar("T")


class Changed(Exception):
    """The job has changed since the decision was made: decide again."""


def busy(job: str, holder: str) -> TowpathError:
    """Return the refusal of a second operation on a job."""
    return TowpathError(
        ErrorCode.BUSY,
        f"operation {holder} on this job is under way",
        field="job",
        value=job,
        allowed=f"when operation {holder} has ended",
    )


async def in_time(call: Awaitable[T]) -> T:
    """Return the registry's answer. Raises `TowpathError` (unreachable) when it does not come in time."""
    try:
        async with asyncio.timeout(QUERY_S):
            return await call
    except builtins.TimeoutError as error:
        raise TowpathError(ErrorCode.UNREACHABLE, "the registry does not answer") from error


def record_key(operation: str) -> str:
    """Return the key of an operation's record."""
    return f"{PREFIX}operation:{operation}"


def journal_key(operation: str) -> str:
    """Return the key of an operation's journal."""
    return f"{PREFIX}journal:{operation}"


def command_key(command: str) -> str:
    """Return the key with the operation that a user's command became."""
    return f"{PREFIX}command:{command}"


class Registry:
    """Implements `towpath.protocols.runner.Ledger`, and begins and reads operations."""

    def __init__(self, redis: Redis, registry_log: RegistryLog | None = None) -> None:
        """Without its log the registry can only be read."""
        self._redis = redis
        self._replica = Replica(redis, registry_log) if registry_log else None
        self._ended = 0
        self._entries: dict[str, tuple[str, JobEntry]] = {}
        """Job → its entry as Redis holds it, and as it was parsed: only changed entries are parsed again."""

    @classmethod
    def connect(cls, settings: CoordinatorSettings, registry_log: RegistryLog | None = None) -> Registry:
        """Make a registry. The connection is made when it is first needed."""
        redis = Redis(
            host=settings.redis_host,
            port=settings.redis_port,
            username=settings.redis_user,
            password=settings.redis_password,
            socket_timeout=5,
            socket_connect_timeout=2,
            decode_responses=True,
            retry=Retry(NoBackoff(), 0),
        )
        return cls(redis, registry_log)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def bring_up(self) -> None:
        """Bring Redis to the end of the registry's log. Everything else comes after that."""
        if self._replica is not None:
            await self._replica.bring_up()

    async def lead(self, coordinator: str, above: int = 0) -> int:
        """Begin a term, with a number above this one and all before. Return its number."""
        assert self._replica is not None, "this registry is for reading"
        return await self._replica.lead(coordinator, above)

    @property
    def superseded(self) -> asyncio.Event:
        """Set when another coordinator leads. Nothing is written here any more."""
        assert self._replica is not None, "this registry is for reading"
        return self._replica.superseded

    @property
    def made_room(self) -> deque[str]:
        """Keys of state on its way that were deleted because Redis was full. Take them from here."""
        assert self._replica is not None, "this registry is for reading"
        return self._replica.made_room

    async def call(self, method: str, *arguments: Any) -> Any:
        """Return the answer of Redis to a command that changes nothing in the registry.

        Waits while Redis is out of reach. When it is back, it first gets what it may have lost.
        """
        return await self._patiently(lambda: getattr(self._redis, method)(*arguments))

    async def call_together(self, *methods: str) -> list[Any]:
        """Do the same with commands that run as one: no other comes between them."""

        async def call() -> list[Any]:
            async with self._redis.pipeline(transaction=True) as redis:
                for method in methods:
                    getattr(redis, method)()
                return await redis.execute()

        return await self._patiently(call)

    async def _patiently(self, call: Callable[[], Awaitable[Any]]) -> Any:
        return await patiently(call, REDIS_AWAY, self.bring_up)

    async def write(self, *commands: RedisCommand, check: Callable[[], None] = lambda: None) -> list[Any]:
        """Write commands of Redis together, and return its answers. Waits while Redis or the hub is away.

        Every command may be repeated. `check` is called before: what it raises ends the attempt.
        """
        assert self._replica is not None, "this registry is for reading"
        return await self._replica.write(*commands, check=check)

    async def run_script(
        self, script: str, keys: list[str], arguments: list[str], check: Callable[[], None] = lambda: None
    ) -> Any:
        """Run one of the scripts, see `write`."""
        (answer,) = await self.write(("EVAL", script, str(len(keys)), *keys, *arguments), check=check)
        return answer

    async def accept(self, script: str, keys: list[str], arguments: list[str]) -> Any:
        """Run a script that accepts a command, if its sender still waits.

        Raises `TowpathError` (deadline), and then it is not accepted.
        """
        return await self.run_script(script, keys, arguments, check_in_time)

    async def contents(self) -> list[RedisCommand]:
        """Return commands that write the whole registry."""
        assert self._replica is not None, "this registry is for reading"
        return await self._replica.contents()

    async def replace(self, commands: Sequence[RedisCommand]) -> None:
        """Replace the whole registry by what these commands write, without what was under way."""
        kept = [command for command in commands if command[1] not in UNDER_WAY]
        await self.write(*replacing(await registry_keys(self._redis), kept))

    async def adopt(self, entry: JobEntry) -> None:
        """Write a job as its site has it. Raises `TowpathError` (busy) while an operation holds it."""
        job = entry.spec.name
        holder = await self.run_script(ADOPT, [LOCKS, JOBS, FORMER], [job, entry_text(entry)])
        if holder:
            raise busy(job, holder)

    async def begin(self, record: OperationRecord) -> str:
        """Accept an operation: write lock, record and command in one durable write. Return its id.

        If the same command was accepted before, return the id of the earlier operation. Raises `Changed`
        when the job's version is not that of `record.before` any more, `TowpathError` (busy) when another
        operation holds the job, or (deadline) when its sender has stopped waiting.
        """
        operation = record.id
        before = record.before
        counts = (before.epoch, before.used_epoch, before.revision, before.adjustments) if before else ()
        verdict, detail = await self.accept(
            BEGIN,
            [LOCKS, JOBS, record_key(operation), OPERATIONS, UNFINISHED, command_key(record.command)],
            [
                record.job,
                operation,
                record_text(record),
                str(record.begun_at.timestamp()),
                "/".join(map(str, counts)),
                str(COMMAND_REMEMBERED_S),
            ],
        )
        if verdict == "busy":
            raise busy(record.job, detail)
        if verdict == "changed":
            raise Changed(record.job)
        return detail

    async def load(self, operation: str) -> tuple[OperationRecord, list[JournalEntry]]:
        """Return an operation and its journal. Raises `TowpathError` when there is none of that id."""
        text = await self.call("get", record_key(operation))
        if text is None:
            raise TowpathError(
                ErrorCode.UNKNOWN_MIGRATION, "no such operation", field="operation", value=operation
            )
        lines = await self.call("lrange", journal_key(operation), 0, -1)
        return (
            OperationRecord.from_json(text),
            [JournalEntry.from_json(line) for line in lines],
        )

    async def append(
        self, record: OperationRecord, entry: JournalEntry, position: int, change: RegistryChange | None
    ) -> None:
        """See `Ledger.append`."""
        verdict = await self.run_script(
            APPEND,
            [journal_key(record.id), record_key(record.id), JOBS, FORMER, LOCKS],
            [
                str(position),
                entry.model_dump_json(exclude_defaults=True),
                record_text(record),
                record.job,
                *_change(change),
                record.id,
            ],
        )
        if verdict == "superseded":
            raise Superseded(record.id)

    async def finish(self, record: OperationRecord, position: int, change: RegistryChange | None) -> None:
        """See `Ledger.finish`."""
        verdict = await self.run_script(
            FINISH,
            [journal_key(record.id), record_key(record.id), JOBS, FORMER, LOCKS],
            [str(position), record.id, record_text(record), record.job, *_change(change)],
        )
        if verdict == "superseded":
            raise Superseded(record.id)

    async def announced(self, operation: str) -> None:
        """See `Ledger.announced`."""
        await self.write(*(("SREM", some, operation) for some in (ABORTS, FINISHES, UNFINISHED)))
        await self._forget_old()

    async def _forget_old(self) -> None:
        """Forget the oldest ended operations now and then, except those to be kept."""
        self._ended += 1
        if self._ended % FORGET_EVERY:
            return
        names = await self.call("zrevrange", OPERATIONS, 0, -1)
        going_on = set(await self.unfinished())
        seen: Counter[bool] = Counter()
        for some in range(0, len(names), FORGET_EVERY):
            for record in await self.records(names[some : some + FORGET_EVERY]):
                is_migration = record.kind is OperationKind.MIGRATE
                seen[is_migration] += 1
                most = MIGRATIONS_KEPT if is_migration else OPERATIONS_KEPT
                if seen[is_migration] > most and record.id not in going_on:
                    await self._forget(record)

    async def _forget(self, record: OperationRecord) -> None:
        """Delete an ended operation, its journal, and the note that its command was executed."""
        keys = record_key(record.id), journal_key(record.id), command_key(record.command)
        await self.write(("DEL", *keys), ("ZREM", OPERATIONS, record.id))

    async def request(self, record: OperationRecord, kind: str) -> bool:
        """Keep a request about an operation, in `ABORTS` or `FINISHES`. Return False when it has ended."""
        return await self.run_script(REQUEST, [LOCKS, kind], [record.job, record.id]) == "noted"

    async def is_requested(self, operation: str, kind: str) -> bool:
        """Tell if someone made such a request about an operation."""
        wished = await self.call("sismember", kind, operation)
        return bool(wished)

    async def unfinished(self) -> list[str]:
        """Return the operations that a coordinator must continue."""
        members = await self.call("smembers", UNFINISHED)
        return sorted(members)

    async def keys(self, pattern: str) -> list[str]:
        """Return the keys of a pattern."""

        async def found() -> list[str]:
            return [key async for key in self._redis.scan_iter(match=pattern, count=1000)]

        return await self._patiently(found)

    async def operation_of(self, command: str) -> str | None:
        """Return the operation that a command became, if it was accepted before."""
        return await self.call("get", command_key(command))

    async def latest(self, limit: int) -> list[OperationRecord]:
        """Return the newest operations, newest first."""
        names = await self.call("zrevrange", OPERATIONS, 0, limit - 1)
        return await self.records(names)

    async def records(self, names: list[str]) -> list[OperationRecord]:
        """Return those of these operations that are known."""
        if not names:
            return []
        texts = await self.call("mget", [record_key(name) for name in names])
        return [OperationRecord.from_json(text) for text in texts if text]

    async def jobs(self) -> dict[str, JobEntry]:
        """Return all jobs by name."""
        found = await self.call("hgetall", JOBS)
        known = self._entries
        self._entries = {
            name: known[name] if name in known and known[name][0] == text else (text, _read_entry(text))
            for name, text in sorted(found.items())
        }
        return {name: entry for name, (_, entry) in self._entries.items()}

    async def locks(self) -> dict[str, str]:
        """Return, for each locked job, the operation under way."""
        return await self.call("hgetall", LOCKS)

    async def former(self, job: str) -> FormerJob | None:
        """Return the remains of a removed job of that name."""
        text = await self.call("hget", FORMER, job)
        return FormerJob.from_json(text) if text else None


def _read_entry(text: str) -> JobEntry:
    return JobEntry.from_json(text)


def _change(change: RegistryChange | None) -> list[str]:
    if change is None:
        return ["", "", ""]
    entry = entry_text(change.entry) if change.entry else ""
    former = change.former.model_dump_json(exclude_defaults=True) if change.former else ""
    return ["change", entry, former]
