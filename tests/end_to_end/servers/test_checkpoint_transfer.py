"""A checkpoint crosses a real Redis chunk by chunk, even if processes are killed on the way."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from running.servers import Server
from running.waiting import WITHIN_S, eventually
from towpath.checkpoints.inventory import inventory
from towpath.checkpoints.receiving import receive
from towpath.checkpoints.transfer import CHUNK_BYTES, WINDOW, send
from towpath.checkpoints.transfer_keys import transfer_key
from towpath.contracts.errors import ErrorCode, TowpathError

OPERATION = "m1"


@pytest.fixture
async def redis(redis_server: Server) -> AsyncIterator[Redis]:
    client = Redis(port=redis_server.port, socket_timeout=5)
    yield client
    await client.aclose()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Make a checkpoint with an empty file, small files, a file of several chunks, and foreign files."""
    root = tmp_path / "source" / "checkpoint"
    files = {
        "metadata": b'{"id":"1"}',
        "commits/3": b"v1\n{}",
        "state/0/0/3.changelog": b"",
        "state/0/0/SSTs/1.sst": os.urandom(3 * CHUNK_BYTES + 17),
        "state/0/0/2.zip": os.urandom(CHUNK_BYTES),
        "offsets/.4.tmp": b"half",
        "commits/.3.crc": b"crc",
    }
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


async def move(redis: Redis, checkpoint: Path, staging: Path, base: Path) -> tuple[int, str, str]:
    """Send and receive at once. Return bytes moved, digest sent and digest received."""
    receiving = asyncio.create_task(receive(redis, OPERATION, staging, base, name="n", consumer="cloud"))
    sent = await send(
        redis, OPERATION, checkpoint, inventory(base), name="n", generation="g1", within_s=WITHIN_S
    )
    return sent.state_bytes, sent.digest, await receiving


async def test_transfer_when_target_has_nothing_then_all_files_arrive_and_store_is_empty(
    redis: Redis, checkpoint: Path, tmp_path: Path
) -> None:
    moved, sent, arrived = await move(redis, checkpoint, tmp_path / "in", tmp_path / "none")
    assert sent == arrived
    assert inventory(tmp_path / "in") == inventory(checkpoint)
    assert set(inventory(checkpoint)) == {
        "metadata", "commits/3", "state/0/0/3.changelog", "state/0/0/SSTs/1.sst", "state/0/0/2.zip",
    }  # fmt: skip
    assert moved == sum((checkpoint / path).stat().st_size for path in inventory(checkpoint))
    assert await redis.xlen(transfer_key(OPERATION, "n")) == 0


async def test_transfer_when_target_has_an_older_copy_then_only_the_difference_moves(
    redis: Redis, checkpoint: Path, tmp_path: Path
) -> None:
    await move(redis, checkpoint, tmp_path / "cache", tmp_path / "none")
    (checkpoint / "commits" / "4").write_bytes(b"v1\n{}")
    (checkpoint / "metadata").write_bytes(b"changed")
    (checkpoint / "state/0/0/2.zip").unlink()
    moved, sent, arrived = await move(redis, checkpoint, tmp_path / "in", tmp_path / "cache")
    assert sent == arrived
    assert inventory(tmp_path / "in") == inventory(checkpoint)
    assert moved == len(b"v1\n{}") + len(b"changed")


async def test_transfer_when_no_one_takes_chunks_then_store_stays_small_and_source_gives_up(
    redis: Redis, checkpoint: Path
) -> None:
    with pytest.raises(TowpathError) as failure:
        await send(redis, OPERATION, checkpoint, {}, name="n", generation="g1", within_s=0.5)
    assert failure.value.detail.code is ErrorCode.FAILED, (
        "a migration that waits on would keep the job paused"
    )
    assert await redis.xlen(transfer_key(OPERATION, "n")) <= WINDOW


async def test_transfer_when_source_dies_and_starts_over_then_target_starts_over_too(
    redis: Redis, checkpoint: Path, tmp_path: Path
) -> None:
    arrived: list[str] = []

    async def watch() -> None:
        """Watch as an agent does, which goes on after a complete transfer."""
        while True:
            arrived.append(
                await receive(
                    redis, OPERATION, tmp_path / "in", tmp_path / "none", name="n", consumer="cloud"
                )
            )

    watching = asyncio.create_task(watch())
    first = asyncio.create_task(
        send(redis, OPERATION, checkpoint, {}, name="n", generation="g1", within_s=WITHIN_S)
    )
    await eventually((tmp_path / "in").exists)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    (checkpoint / "metadata").write_bytes(b"the source went on before it was asked again")
    sent = await send(redis, OPERATION, checkpoint, {}, name="n", generation="g2", within_s=WITHIN_S)
    await eventually(lambda: sent.digest in arrived)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert inventory(tmp_path / "in") == inventory(checkpoint)


async def test_transfer_when_source_starts_over_then_its_entries_are_numbered_on(
    redis: Redis, checkpoint: Path, tmp_path: Path
) -> None:
    # The clock stands or goes back: no other entry may get an earlier attempt's number.
    ahead = f"{int(time.time() * 1000) + 3_600_000}-0"
    await redis.xadd(transfer_key(OPERATION, "n"), {"kind": "chunk", "generation": "g0"}, id=ahead)
    moving = asyncio.create_task(
        send(redis, OPERATION, checkpoint, {}, name="n", generation="g1", within_s=WITHIN_S)
    )

    async def newest() -> bytes | None:
        """Return the number of the newest entry, if it is not the earlier attempt's."""
        [(number, entry)] = await redis.xrevrange(transfer_key(OPERATION, "n"), count=1)
        return None if entry[b"generation"] == b"g0" else number

    assert await eventually(newest) > ahead.encode()
    arrived = await receive(redis, OPERATION, tmp_path / "in", tmp_path / "none", name="n", consumer="cloud")
    assert arrived == (await moving).digest


async def test_transfer_when_source_starts_over_then_target_forgets_what_it_had_taken_and_is_gone(
    redis: Redis, checkpoint: Path, tmp_path: Path
) -> None:
    key = transfer_key(OPERATION, "n")
    await redis.xgroup_create(key, "target", id="0", mkstream=True)
    for _ in range(3 * WINDOW):
        await redis.xadd(key, {"kind": "chunk", "generation": "g0"})
    await redis.xreadgroup("target", "cloud", {key: ">"})
    moved, sent, arrived = await move(redis, checkpoint, tmp_path / "in", tmp_path / "none")
    assert sent == arrived
    assert moved > 0
    assert (await redis.xpending(key, "target"))["pending"] == 0


async def test_transfer_when_target_dies_then_its_successor_takes_what_was_not_acknowledged(
    redis: Redis, checkpoint: Path, tmp_path: Path
) -> None:
    # Long enough that the target dies in the middle, not when all has arrived.
    (checkpoint / "state/0/0/SSTs/2.sst").write_bytes(os.urandom(60 * CHUNK_BYTES))
    sending = asyncio.create_task(
        send(redis, OPERATION, checkpoint, {}, name="n", generation="g1", within_s=WITHIN_S)
    )
    staging = tmp_path / "in"
    receiving = asyncio.create_task(
        receive(redis, OPERATION, staging, tmp_path / "none", name="n", consumer="cloud")
    )
    await eventually(staging.exists)
    receiving.cancel()
    (ended,) = await asyncio.gather(receiving, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError)
    arrived = await receive(redis, OPERATION, staging, tmp_path / "none", name="n", consumer="cloud")
    assert arrived == (await sending).digest
    assert inventory(staging) == inventory(checkpoint)


class LosesAnswers(Redis):
    """Loses the answer to each first attempt to append an entry, which is stored."""

    def __init__(self, **options: int) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.attempts = 0

    async def xadd(self, *entry: Any, **options: Any) -> Any:
        answer = await super().xadd(*entry, **options)
        self.attempts += 1
        if self.attempts % 2:
            raise RedisConnectionError("the answer was lost")
        return answer


async def test_transfer_when_answers_to_entries_are_lost_then_each_is_stored_once(
    redis_server: Server, checkpoint: Path, tmp_path: Path
) -> None:
    async with LosesAnswers(port=redis_server.port, socket_timeout=5) as redis:
        _, sent, arrived = await move(redis, checkpoint, tmp_path / "in", tmp_path / "none")

        assert sent == arrived
        assert inventory(tmp_path / "in") == inventory(checkpoint)
        assert await redis.xlen(transfer_key(OPERATION, "n")) == 0


async def test_transfer_when_store_is_killed_then_it_goes_on_after_its_restart(
    redis: Redis, checkpoint: Path, tmp_path: Path, redis_server: Server
) -> None:
    moving = asyncio.create_task(move(redis, checkpoint, tmp_path / "in", tmp_path / "none"))
    await eventually((tmp_path / "in").exists)
    await redis_server.kill()
    await redis_server.start()
    _, sent, arrived = await moving
    assert sent == arrived
    assert inventory(tmp_path / "in") == inventory(checkpoint)
