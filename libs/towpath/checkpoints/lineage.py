"""Which files of a state store hold one version of its state, of all that lie beside them.

A store keeps snapshots (`<version>_<id>.zip`, which name the immutable files under `SSTs` that they are made
of) and changelogs (`<version>_<id>.changelog`). A changelog begins with its lineage: the versions it follows
from, back to a snapshot. Whoever loads a version takes the newest snapshot of its lineage and the changelogs
after that. Everything else is history: of a large state several times its size.

The formats are Spark's (`RocksDBFileManager`, `StateStoreChangelogWriter`; version 2 of its checkpoints).
What looks otherwise is not judged: then all files are needed.
"""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

SNAPSHOT, CHANGELOG = ".zip", ".changelog"

STATE_FILES = "SSTs"
"""Directory of the immutable files that snapshots refer to."""

_METADATA = "metadata"
_LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<BIII")
"""Token, compressed and decompressed size, checksum; the compressed bytes follow."""

_RAW = 0x10
"""Method in the token's upper half: the block is stored as it is."""

MOST_HEADER_BYTES = 1024 * 1024
"""A lineage has one entry a version since the last snapshot: kilobytes."""


class Version(NamedTuple):
    """A version of a store's state; those of another attempt at the same micro-batch have another id."""

    number: int
    identifier: str

    @property
    def name(self) -> str:
        """What the names of its files begin with."""
        return f"{self.number}_{self.identifier}"


class Outdated:
    """The files of a checkpoint's state stores that the state at a committed micro-batch is not made of.
    A container of paths."""

    def __init__(self, checkpoint: Path, batch: int) -> None:
        # Micro-batch N wrote version N + 1 of the state.
        identifiers = identifiers_at(checkpoint, batch)
        self._needed = {store: needed(store, batch + 1, identifiers) for store in stores(checkpoint)}

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, Path):
            return False
        store = path.parent.parent if path.parent.name == STATE_FILES else path.parent
        names = self._needed.get(store)
        name = path.relative_to(store).as_posix()
        return names is not None and is_state(name) and name not in names


def stores(checkpoint: Path) -> list[Path]:
    """The directories of all state stores of a checkpoint."""
    found = {path.parent for path in (checkpoint / "state").rglob(f"[0-9]*_*{CHANGELOG}")}
    return sorted(found)


def needed(store: Path, number: int, identifiers: set[str]) -> set[str] | None:
    """Names (below `store`) of the files that make version `number`, which has one of the identifiers.

    None if that cannot be told: then every file may be needed.
    """
    try:
        [version] = [v for v in (Version(number, i) for i in identifiers) if _has(store, v, CHANGELOG)]
        lineage = [*lineage_of(store / (version.name + CHANGELOG)), version]
        base = next((v for v in reversed(lineage) if _has(store, v, SNAPSHOT)), None)
        if base is None and lineage[0].number != 1:
            return None
        after = [v for v in lineage if base is None or v.number >= base.number]
        changelogs = {v.name + CHANGELOG for v in after if _has(store, v, CHANGELOG)}
        if any(v.name + CHANGELOG not in changelogs for v in after if v != base):
            return None
        return changelogs | (set() if base is None else _parts(store, base))
    except (OSError, ValueError, KeyError, TypeError, struct.error, zipfile.BadZipFile, pa.ArrowException):
        return None


def is_state(name: str) -> bool:
    """Whether a file, by its name below its store, is a snapshot, a changelog, or a part of a snapshot."""
    return name.endswith((SNAPSHOT, CHANGELOG)) or name.startswith(f"{STATE_FILES}/")


def lineage_of(changelog: Path) -> list[Version]:
    """The versions that a changelog follows from, oldest first; back to a snapshot, or to version 1.

    Raises `ValueError` if it says nothing of them.
    """
    data = _beginning(changelog)
    form, data = _text(data)
    if form not in ("v3", "v4"):
        raise ValueError(f"{changelog.name}: a changelog of form {form} has no lineage")
    listed, _ = _text(data)
    return [Version(int(entry["version"]), entry["checkpointUniqueId"]) for entry in json.loads(listed)]


def identifiers_at(checkpoint: Path, batch: int) -> set[str]:
    """Identifiers of what all stores wrote in a committed micro-batch; empty if the commit names none."""
    try:
        _, line, *_ = (checkpoint / "commits" / str(batch)).read_text().splitlines()
        by_operator: dict[str, list[list[str]]] = json.loads(line).get("stateUniqueIds") or {}
    except (ValueError, AttributeError):
        return set()
    return {identifier for partitions in by_operator.values() for ids in partitions for identifier in ids}


def _parts(store: Path, snapshot: Version) -> set[str]:
    """The archive of a snapshot and what it refers to."""
    archive = snapshot.name + SNAPSHOT
    with zipfile.ZipFile(store / archive) as file:
        text = file.read(_METADATA).decode()
    metadata = json.loads(text[text.index("{") :])
    return {archive, *(f"{STATE_FILES}/{one['dfsSstFileName']}" for one in metadata["sstFiles"])}


def _has(store: Path, version: Version, ending: str) -> bool:
    return (store / (version.name + ending)).exists()


def _beginning(changelog: Path) -> bytes:
    """Enough of a changelog, decompressed, to hold its header."""
    found = b""
    with changelog.open("rb") as file:
        while len(found) < MOST_HEADER_BYTES and file.read(len(_LZ4_MAGIC)) == _LZ4_MAGIC:
            token, compressed, size, _ = _LZ4_HEADER.unpack(file.read(_LZ4_HEADER.size))
            if size == 0:
                break
            body = file.read(compressed)
            if token & 0xF0 != _RAW:
                body = pa.decompress(body, decompressed_size=size, codec="lz4_raw").to_pybytes()
            found += body
    return found


def _text(data: bytes) -> tuple[str, bytes]:
    """A string as Java's `writeUTF` wrote it, and what follows."""
    end = 2 + int.from_bytes(data[:2])
    return data[2:end].decode(), data[end:]
