"""Find the files of a state store that hold one version of its state.

A store keeps snapshots (`<version>_<id>.zip`, which name the immutable files under `SSTs` that they are made
of) and changelogs (`<version>_<id>.changelog`). A changelog begins with its lineage: the versions it follows
from, back to a snapshot. Spark loads a version from the newest snapshot of its lineage and the changelogs
after that. Everything else is history. For a large state, history is several times its size.

The formats are Spark's (`RocksDBFileManager`, version 2 of its checkpoints). In any other format all files
count as needed.
"""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import NamedTuple

from towpath.engines.spark.changelog import Version, lineage_of

STATE_FILES = "SSTs"
"""Directory of the immutable files that snapshots refer to."""

_METADATA = "metadata"

UNREADABLE = (OSError, ValueError, KeyError, TypeError, struct.error, zipfile.BadZipFile)
"""Errors of files that have an unknown form or disappear."""


class Parts(NamedTuple):
    """Snapshot, versions and files that one version of a state is made of."""

    base: Version | None
    """The snapshot. None before the first one."""
    lineage: list[Version]
    """From the snapshot, or from version 1. The version itself comes last."""
    names: set[str]
    """Names of the files, below the store's directory."""


class Outdated:
    """Paths of state files that the state at a committed micro-batch does not need."""

    def __init__(self, checkpoint: Path, batch: int) -> None:
        # Micro-batch N wrote version N + 1 of the state.
        identifiers = identifiers_at(checkpoint, batch)
        self._parts = {store: parts_of(store, batch + 1, identifiers) for store in stores(checkpoint)}

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, Path):
            return False
        store = path.parent.parent if path.parent.name == STATE_FILES else path.parent
        parts = self._parts.get(store)
        name = path.relative_to(store).as_posix()
        return parts is not None and is_state(name) and name not in parts.names


def stores(checkpoint: Path) -> list[Path]:
    """Return the directories of all state stores of a checkpoint."""
    found = {path.parent for path in (checkpoint / "state").rglob("[0-9]*_*.changelog")}
    return sorted(found)


def parts_of(store: Path, number: int, identifiers: set[str]) -> Parts | None:
    """Return the parts of version `number`, which has one of the identifiers.

    None if they cannot be found out. Then every file may be needed.
    """
    try:
        [version] = [v for v in (Version(number, i) for i in identifiers) if (store / v.changelog).exists()]
        lineage = [*lineage_of(store / version.changelog), version]
        base = next((v for v in reversed(lineage) if (store / v.snapshot).exists()), None)
        if base is None and lineage[0].number != 1:
            return None
        after = [v for v in lineage if base is None or v.number >= base.number]
        changelogs = {v.changelog for v in after if (store / v.changelog).exists()}
        if any(v.changelog not in changelogs for v in after if v != base):
            return None
        return Parts(base, after, changelogs | (set() if base is None else _referred(store, base)))
    except UNREADABLE:
        return None


def is_state(name: str) -> bool:
    """Return True if a name below a store is that of a snapshot, a changelog, or a part of a snapshot."""
    return name.endswith((".zip", ".changelog")) or name.startswith(f"{STATE_FILES}/")


def identifiers_at(checkpoint: Path, batch: int) -> set[str]:
    """Return the identifiers of all stores' versions in a committed micro-batch. Empty if it names none."""
    try:
        _, line, *_ = (checkpoint / "commits" / str(batch)).read_text().splitlines()
        by_operator: dict[str, list[list[str]]] = json.loads(line).get("stateUniqueIds") or {}
    except (ValueError, AttributeError):
        return set()
    return {identifier for partitions in by_operator.values() for ids in partitions for identifier in ids}


def _referred(store: Path, snapshot: Version) -> set[str]:
    """Return the archive of a snapshot and the files it refers to."""
    with zipfile.ZipFile(store / snapshot.snapshot) as file:
        text = file.read(_METADATA).decode()
    metadata = json.loads(text[text.index("{") :])
    return {snapshot.snapshot, *(f"{STATE_FILES}/{one['dfsSstFileName']}" for one in metadata["sstFiles"])}
