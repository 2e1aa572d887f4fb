"""A changelog of a state store: the changes of one version of the state, after the lineage of that version.

The format is Spark's (`StateStoreChangelogWriter`, version 2 of its checkpoints): blocks as lz4-java writes
them (`LZ4BlockOutputStream`), holding the form, the lineage as JSON, and then the changes.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import xxhash

_FORMS = ("v3", "v4")
"""The forms that have a lineage."""

_MAGIC = b"LZ4Block"
_HEADER = struct.Struct("<BIII")
"""Token, compressed and decompressed size, checksum. The compressed bytes follow."""

_RAW = 0x10
"""Method in the token's upper half: the block is stored as it is."""

_WRITTEN_TOKEN = _RAW | 5
"""The lower half is the logarithm of the largest block's size, less 10."""

_WRITTEN_BYTES = 1 << 15
_SEED, _MASK = 0x9747B28C, 0x0FFFFFFF
"""For a block's checksum: xxHash32 over its content."""

LONGEST_LINEAGE = 400
"""Versions. Java's `writeUTF` can hold some 850 of them. Every later version has one more, until Spark has
uploaded a snapshot."""


class Version(NamedTuple):
    """A version of a store's state. Another attempt at the same micro-batch has another id."""

    number: int
    identifier: str

    @property
    def name(self) -> str:
        """First part of the names of its files."""
        return f"{self.number}_{self.identifier}"

    @property
    def changelog(self) -> str:
        """Name of the file with its changes."""
        return f"{self.name}.changelog"

    @property
    def snapshot(self) -> str:
        """Name of the archive of the whole state, if there is one."""
        return f"{self.name}.zip"


def lineage_of(changelog: Path) -> list[Version]:
    """Return the versions that a changelog follows from, oldest first, back to a snapshot or to version 1.

    Raises `ValueError` if the changelog does not name them.
    """
    with changelog.open("rb") as file:
        _, lineage, _ = _parsed(file, changelog.name)
    return lineage


def write_with_lineage(changelog: Path, lineage: Sequence[Version], into: Path) -> None:
    """Write the same changes after another lineage.

    Raises `ValueError` if the changelog has no lineage, or if the new one is longer than `LONGEST_LINEAGE`.
    """
    if len(lineage) > LONGEST_LINEAGE:
        raise ValueError(f"a lineage of {len(lineage)} versions is too long for a changelog")
    with changelog.open("rb") as file:
        form, _, rest = _parsed(file, changelog.name)
        listed = [{"version": v.number, "checkpointUniqueId": v.identifier} for v in lineage]
        begin = _utf(form) + _utf(json.dumps(listed, separators=(",", ":"))) + rest
        with into.open("xb") as written:
            for at in range(0, len(begin), _WRITTEN_BYTES):
                written.write(_block(begin[at : at + _WRITTEN_BYTES]))
            shutil.copyfileobj(file, written)


def _parsed(file: BinaryIO, name: str) -> tuple[str, list[Version], bytes]:
    """Return form and lineage, and the rest of the blocks that had to be read for them."""
    form, data = _text(file, b"")
    if form not in _FORMS:
        raise ValueError(f"{name}: a changelog of form {form} has no lineage")
    listed, rest = _text(file, data)
    return form, [Version(int(one["version"]), one["checkpointUniqueId"]) for one in json.loads(listed)], rest


def _text(file: BinaryIO, begun: bytes) -> tuple[str, bytes]:
    """Return a string as Java's `writeUTF` wrote it, and the rest of its blocks. `begun` was read already."""
    data = _at_least(2, file, begun)
    end = 2 + int.from_bytes(data[:2])
    data = _at_least(end, file, data)
    return data[2:end].decode(), data[end:]


def _at_least(size: int, file: BinaryIO, data: bytes) -> bytes:
    while len(data) < size:
        block = _next_block(file)
        if not block:
            raise ValueError("the changelog ends within its header")
        data += block
    return data


def _next_block(file: BinaryIO) -> bytes:
    """Return the content of the next block, or nothing at the end."""
    if file.read(len(_MAGIC)) != _MAGIC:
        return b""
    token, compressed, size, _ = _HEADER.unpack(file.read(_HEADER.size))
    body = file.read(compressed)
    if size == 0 or token & 0xF0 == _RAW:
        return body
    # Imported here, because it loads numpy, too, and most agents never read a changelog.
    import pyarrow as pa

    try:
        return pa.decompress(body, decompressed_size=size, codec="lz4_raw").to_pybytes()
    except pa.ArrowException as error:
        raise ValueError(f"a block of the changelog cannot be decompressed: {error}") from error


def _block(content: bytes) -> bytes:
    checksum = xxhash.xxh32_intdigest(content, seed=_SEED) & _MASK
    return _MAGIC + _HEADER.pack(_WRITTEN_TOKEN, len(content), len(content), checksum) + content


def _utf(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2) + data
