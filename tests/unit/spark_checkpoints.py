"""Checkpoints as Spark writes them, made without Spark."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from engine_suite import change

from towpath.contracts.data_plane import Offset
from towpath.engines.spark.changelog import Version, lineage_of
from towpath.engines.spark.layout import newest_commit

PLAIN = 0x15
"""Token of a block that is stored as it is."""
PACKED = 0x25


def block(content: bytes, token: int) -> bytes:
    body = content if token == PLAIN else pa.compress(content, codec="lz4_raw", asbytes=True)
    return b"LZ4Block" + struct.pack("<BIII", token, len(body), len(content), 0) + body


def utf(text: str) -> bytes:
    return len(text).to_bytes(2) + text.encode()


def changelog(
    store: Path,
    version: int,
    since: int,
    form: str = "v3",
    token: int = PACKED,
    changes: bytes = b"changes" * 10,
) -> None:
    """A changelog whose lineage begins with version `since`."""
    lineage = [{"version": n, "checkpointUniqueId": f"id{n}"} for n in range(since, version)]
    content = utf(form) + utf(json.dumps(lineage)) + b"\xff\xff\xff\xff" + changes
    store.mkdir(parents=True, exist_ok=True)
    (store / f"{version}_id{version}.changelog").write_bytes(block(content, token) + block(b"", PLAIN))


def archive(store: Path, version: int, *parts: str) -> None:
    """A snapshot made of files under SSTs."""
    (store / "SSTs").mkdir(parents=True, exist_ok=True)
    listed = {"sstFiles": [{"dfsSstFileName": part, "localFileName": "1.sst"} for part in parts]}
    with zipfile.ZipFile(store / f"{version}_id{version}.zip", "w") as file:
        file.writestr("metadata", "v1\n" + json.dumps(listed))
    for part in parts:
        (store / "SSTs" / part).write_text(part)


def commit(checkpoint: Path, batch: int) -> None:
    ids = {"stateUniqueIds": {"0": [[f"id{batch + 1}"]]}}
    for name, text in (("commits", f"v2\n{json.dumps(ids)}"), ("offsets", "v1\n{}\n{}")):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
        (checkpoint / name / str(batch)).write_text(text)


def decompressed(changelog: Path) -> bytes:
    data, found = changelog.read_bytes(), b""
    while data:
        token, compressed, size, _ = struct.unpack("<BIII", data[8:21])
        body, data = data[21 : 21 + compressed], data[21 + compressed :]
        found += body if token == PLAIN else pa.decompress(body, size, codec="lz4_raw", asbytes=True)
    return found


SNAPSHOT_EVERY = 4
"""Versions. Spark makes a snapshot more seldom."""

SCHEMA = "state/0/0/schema"
METADATA = "state/0/_metadata/v2/0"


class SparkWriter:
    """One state store, whose snapshots and changelogs hold the changes that micro-batches made."""

    def plan(self, checkpoint: Path, batch: int, serials: Sequence[int]) -> None:
        """Write the offsets."""
        lines = [json.dumps(Offset(serial).document()) for serial in serials]
        write(checkpoint / "offsets" / str(batch), "\n".join(["v1", "{}", *lines]))
        write(checkpoint / "offsets" / f".{batch}.crc", "a checksum")
        write(checkpoint / "metadata", '{"id": "q"}')
        paths = {"stateStoreInfo": [{"stateSchemaFilePaths": [f"file:{checkpoint}/{SCHEMA}"]}]}
        write(checkpoint / METADATA, f"v2\n{json.dumps(paths)}")

    def commit(self, checkpoint: Path, batch: int) -> None:
        """Write a changelog, every fourth time also a snapshot, and then the commit."""
        store, version = checkpoint / "state/0/0", batch + 1
        newest = max((int(path.name.partition("_")[0]) for path in store.glob("*.zip")), default=1)
        before = self.state(checkpoint)
        changelog(store, version, since=newest, changes=change(batch).encode())
        if version % SNAPSHOT_EVERY == 0:
            archive(store, version, f"{version}.sst")
            (store / "SSTs" / f"{version}.sst").write_text("\n".join([*before, change(batch)]))
            self._delete_history(store, newest)
        ids = {"stateUniqueIds": {"0": [[f"id{version}"]]}}
        write(checkpoint / "commits" / str(batch), f"v2\n{json.dumps(ids)}")

    def _delete_history(self, store: Path, newest: int) -> None:
        """Keep the snapshot before the last one, and what follows from it."""
        for path in [*store.glob("*_*"), *store.glob("SSTs/*")]:
            if int(path.name.partition("_")[0].partition(".")[0]) < newest:
                path.unlink()

    def state(self, checkpoint: Path) -> list[str]:
        """Follow the lineage of the newest version back to a snapshot, or to version 1."""
        batch, store = newest_commit(checkpoint), checkpoint / "state/0/0"
        if batch is None:
            return []
        newest = Version(batch + 1, f"id{batch + 1}")
        found: list[str] = []
        for version in reversed([*lineage_of(store / newest.changelog), newest]):
            if (store / version.snapshot).exists():
                return [*(store / "SSTs" / f"{version.number}.sst").read_text().split("\n"), *found]
            found.insert(0, changes_in(store / version.changelog))
        return found


def changes_in(changelog: Path) -> str:
    """Return the text of a changelog after its lineage."""
    return decompressed(changelog).rpartition(b"\xff\xff\xff\xff")[2].decode()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
