"""Read a Structured Streaming checkpoint from its directory.

A micro-batch N writes `offsets/N` before it runs, and `commits/N` after its results are out. State files are
under `state/`. So N is done if and only if `commits/N` exists. An `offsets/N` without it is a micro-batch
that will run again, with the same offsets.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from towpath.atomic_write import write_atomically
from towpath.checkpoints.inventory import is_transient
from towpath.contracts.data_plane import Offset

HEADER_LINES = 2
"""First lines of a file of offsets: version of the format, and metadata with the watermark."""

_NO_OFFSET = ("-", "null")
"""In place of the offset of a source that has not planned anything."""


def newest_commit(checkpoint: Path) -> int | None:
    """Return the number of the newest committed micro-batch. None if there is none."""
    return max(_numbered(checkpoint / "commits"), default=None)


def unfinished_batch(checkpoint: Path) -> int | None:
    """Return the number of a micro-batch that was begun and not committed. None if there is none."""
    planned = max(_numbered(checkpoint / "offsets"), default=None)
    return planned if planned is not None and planned != newest_commit(checkpoint) else None


def serials_at(checkpoint: Path, batch: int, inputs: Sequence[str]) -> dict[str, int]:
    """Return input → last serial number planned up to and including `batch`.

    `inputs` are the job's input names in the order of its plan. Raises `ValueError` when the offsets do not
    fit their number.
    """
    return by_input(inputs, offsets_in((checkpoint / "offsets" / str(batch)).read_text()))


def offsets_in(text: str) -> list[dict[str, Any] | None]:
    """Return the offsets of a plan's sources, from a file of offsets; None if one has planned nothing."""
    lines = text.splitlines()[HEADER_LINES:]
    return [None if line in _NO_OFFSET else json.loads(line) for line in lines]


def last_offsets(text: str, inputs: Sequence[str]) -> dict[str, Offset]:
    """Return input → its offset in the first branch of the plan, from a file of offsets."""
    offsets = zip(inputs, offsets_in(text), strict=False)
    return {name: Offset.of(offset) for name, offset in offsets if offset is not None}


def by_input(inputs: Sequence[str], offsets: Sequence[dict[str, Any] | None]) -> dict[str, int]:
    """Return input → serial number, from the offsets of a plan's sources in their order.

    A plan with several branches reads each input once per branch, all inputs of a branch in order. An event
    is processed when every branch has it.
    """
    if len(offsets) % len(inputs):
        raise ValueError(f"{len(offsets)} sources do not belong to {len(inputs)} inputs")
    serials: dict[str, int] = {}
    for position, offset in enumerate(offsets):
        if offset is not None:
            name, serial = inputs[position % len(inputs)], Offset.of(offset).serial
            serials[name] = min(serial, serials.get(name, serial))
    return serials


def committed_serials(checkpoint: Path, inputs: Sequence[str]) -> dict[str, int]:
    """Return input → last serial number processed and committed. Empty if nothing was committed."""
    batch = newest_commit(checkpoint)
    return {} if batch is None else serials_at(checkpoint, batch, inputs)


def committed_times(checkpoint: Path, inputs: Sequence[str]) -> dict[str, str]:
    """Return input → when its last committed event was stored, as far as the offsets know."""
    batch = newest_commit(checkpoint)
    if batch is None:
        return {}
    known = last_offsets((checkpoint / "offsets" / str(batch)).read_text(), inputs)
    return {name: offset.stored_at for name, offset in known.items() if offset.stored_at}


def relocate(checkpoint: Path) -> None:
    """Rewrite the absolute paths of state schema files, which some operators' metadata hold."""
    for metadata in checkpoint.glob("state/*/_metadata/v2/*"):
        if metadata.is_file() and not is_transient(metadata):
            _rewrite_paths(metadata, checkpoint)


def _rewrite_paths(metadata: Path, checkpoint: Path) -> None:
    text = metadata.read_text(errors="surrogateescape")
    lines = [_relocated_line(line, checkpoint) for line in text.split("\n")]
    changed = "\n".join(lines)
    if changed != text:
        # Not in place, because an older copy may have a link to the file.
        write_atomically(metadata, changed.encode(errors="surrogateescape"), durable=False)
        metadata.with_name(f".{metadata.name}.crc").unlink(missing_ok=True)


def _relocated_line(line: str, checkpoint: Path) -> str:
    if "stateSchemaFilePaths" not in line:
        return line
    content = json.loads(line)
    for store in content.get("stateStoreInfo", []):
        paths = store.get("stateSchemaFilePaths") or []
        store["stateSchemaFilePaths"] = [_moved(path, checkpoint) for path in paths]
    return json.dumps(content, separators=(",", ":"))


def _moved(path: str, checkpoint: Path) -> str:
    _, marker, rest = path.partition("/state/")
    return f"file:{checkpoint}{marker}{rest}" if marker else path


def _numbered(directory: Path) -> list[int]:
    if not directory.is_dir():
        return []
    return [int(path.name) for path in directory.iterdir() if path.name.isdigit()]
