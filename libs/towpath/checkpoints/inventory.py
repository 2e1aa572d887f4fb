"""The files of a checkpoint and their digests, whichever engine wrote them.

Two checkpoints are equal if and only if their inventories are. Files of a checkpoint never change in place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import xxhash

DIGEST_BYTES = 16
"""128 bits: no two different files of a checkpoint will have the same digest by accident."""


def inventory(checkpoint: Path, *, without: Container[Path] = ()) -> dict[str, str]:
    """Return relative path → digest of every file that belongs to the checkpoint, except those `without`.

    Transient files do not belong to it, and links neither: code of a job may have made one, to a file that
    this process can read and the code cannot.
    """
    if not checkpoint.is_dir():
        return {}
    return {
        str(path.relative_to(checkpoint)): digest_of(path)
        for path in sorted(checkpoint.rglob("*"))
        if path.is_file() and not path.is_symlink() and not is_transient(path) and path not in without
    }


def is_transient(path: Path) -> bool:
    """Return True if a file is half written, or a checksum that may be missing.

    Hadoop's hidden checksum files are optional, and those of relocated files would be wrong.
    """
    return path.name.endswith((".tmp", ".crc")) or (path.name.startswith(".") and ".tmp" in path.name)


def digest_of(path: Path) -> str:
    """Return the digest of a file's content. Remember it, under whatever name the file was read.

    It tells contents apart and detects damage, but not forgery: a gigabyte of state is read at both sites
    while the job runs, and blake2b takes 1.5 s of a core for that, xxh3 0.1 s.
    """
    status = path.stat()
    return _digest(_Content(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))


@dataclass(frozen=True)
class _Content:
    """A file, equal to every other name of it."""

    path: Path = field(compare=False)
    device: int
    inode: int
    size: int
    changed_ns: int


@lru_cache(maxsize=100_000)
def _digest(content: _Content) -> str:
    with content.path.open("rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def digest_of_inventory(files: Mapping[str, str]) -> str:
    """Return one digest over a whole inventory: equal if and only if two checkpoints are."""
    listing = json.dumps(dict(files), sort_keys=True).encode()
    return hashlib.blake2b(listing, digest_size=DIGEST_BYTES).hexdigest()
