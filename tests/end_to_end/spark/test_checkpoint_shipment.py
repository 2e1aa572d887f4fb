"""Copies of a live checkpoint, each based on the one before, taken from and given to a real Spark session."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from running.engine import DEVICE, Site, assignment
from running.waiting import WITHIN_S
from towpath.engines.spark.layout import newest_commit
from towpath.engines.spark.shipment import SparkShipment

pytestmark = pytest.mark.timeout(900)

WINDOWS = {
    "kind": "window",
    "fields": {"at": "timestamp", "k": "string"},
    "event_time": "at",
    "watermark_s": 1.0,
    "size_s": 60.0,
    "key": ["k"],
    "aggregates": {"events": {"function": "count"}},
}
SNAPSHOT_EVERY = "spark.sql.streaming.stateStore.minDeltasForSnapshot"
MERGE_ALWAYS = "spark.sql.streaming.stateStore.rocksdb.compactOnCommit"
"""RocksDB then merges all files, so that each snapshot is made of files of its own, as large as the state."""
KEYS = 5
LARGE_KEYS, LARGE_BYTES = 400, 2_000
"""Keys and bytes of a state that is much larger than its changes."""


def event(number: int) -> dict[str, Any]:
    return {"at": f"2026-01-01T00:00:{number % 50:02}Z", "k": f"k{number % KEYS}"}


async def put_large_state(site: Site) -> int:
    keys = (secrets.token_hex(LARGE_BYTES // 2) for _ in range(LARGE_KEYS))
    await site.put("site.a", *({"at": "2026-01-01T00:00:00Z", "k": key} for key in keys))
    return LARGE_KEYS


def snapshots(checkpoint: Path) -> set[str]:
    return {path.name for path in (checkpoint / "state").rglob("[0-9]*_*.zip")}


def state_files(checkpoint: Path) -> set[str]:
    """Return the files of snapshots: `<number in RocksDB>-<id in the checkpoint>.sst`."""
    return {path.name for path in (checkpoint / "state").rglob("*.sst")}


async def put_batches(site: Site, first: int, count: int) -> int:
    """Process events in micro-batches of one event each."""
    for number in range(first, first + count):
        before = newest_commit(site.checkpoint)
        await site.put("site.a", event(number))
        async with asyncio.timeout(WITHIN_S):
            while newest_commit(site.checkpoint) == before:
                await asyncio.sleep(0.02)
    return first + count


def bytes_of(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


@pytest.fixture
def configure(session: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Changes a setting of the session, until the test ends: other tests share it."""
    before: dict[str, str | None] = {}

    def change(setting: str, value: str) -> None:
        before.setdefault(setting, session.conf.get(setting, None))
        session.conf.set(setting, value)

    yield change
    for setting, value in before.items():
        session.conf.unset(setting) if value is None else session.conf.set(setting, value)


async def test_copy_when_spark_made_a_new_snapshot_meanwhile_then_spark_loads_the_old_one_and_all_changes(
    site: Site, configure: Callable[[str, str], None], tmp_path: Path
) -> None:
    configure(SNAPSHOT_EVERY, "3")
    configure(MERGE_ALWAYS, "true")
    job = assignment(WINDOWS, DEVICE)
    shipment = SparkShipment(site.checkpoint, tmp_path / "outgoing")
    put = await put_large_state(site)
    async with site.running(job):
        put = await put_batches(site, put, 6)
        async with asyncio.timeout(3 * WITHIN_S):
            while not snapshots(site.checkpoint):
                put = await put_batches(site, put, 1)
        shipment.renew()
        old = snapshots(shipment.copy)
        assert len(old) == 1
        async with asyncio.timeout(3 * WITHIN_S):
            while old & snapshots(site.checkpoint):
                put = await put_batches(site, put, 1)
                shipment.keep()
        batch = shipment.renew()
    new = [path for path in site.checkpoint.rglob("*.sst") if path.name not in state_files(shipment.copy)]
    changelogs = [*shipment.copy.rglob("*.changelog")]
    assert bytes_of(new) > 5 * bytes_of(changelogs), "the changelogs are clearly the smaller of the two"
    assert snapshots(shipment.copy) == old, "what came after it is told by changelogs"
    assert batch is not None
    assert batch > 6
    moved = replace(site, checkpoint=tmp_path / "moved" / "checkpoint")
    shutil.copytree(shipment.copy, moved.checkpoint)
    await site.put("site.a", {"at": "2026-01-01T00:03:00Z", "k": "end"})
    async with moved.running(job):
        results = await moved.until(lambda results: len(results) == LARGE_KEYS + KEYS)
    assert sum(result.values["events"] for result in results) == put


async def test_snapshot_when_state_stays_then_its_files_are_not_written_again(
    site: Site, configure: Callable[[str, str], None]
) -> None:
    configure(SNAPSHOT_EVERY, "6")
    seen: list[set[str]] = []
    put = await put_large_state(site)
    async with site.running(assignment(WINDOWS, DEVICE)):
        for _ in range(3):  # With a fourth, RocksDB would merge the files.
            before = snapshots(site.checkpoint)
            put = await put_batches(site, put, 6)
            async with asyncio.timeout(WITHIN_S):
                while snapshots(site.checkpoint) <= before:
                    await asyncio.sleep(0.05)
            seen.append(state_files(site.checkpoint))
    first, files = seen[0], state_files(site.checkpoint)
    assert first
    assert first <= files
    assert len({name.split("-")[0] for name in files}) == len(files), "one of them is there twice"
