"""Derive a checkpoint with the state of another one, and other inputs.

Spark keeps the position of each source in `offsets/N`, one line per source in the order of the plan, and
state under names of its own. So a job whose inputs change keeps its state if those lines are rewritten. An
input that stays gets the serial number it had. A new one gets the serial number before its first event.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from towpath.atomic_write import write_atomically
from towpath.checkpoints.inventory import is_transient
from towpath.contracts.data_plane import Offset
from towpath.engines.spark.layout import HEADER_LINES, last_offsets, newest_commit, relocate
from towpath.engines.spark.snapshot import snapshot


def derive(checkpoint: Path, into: Path, before: Sequence[str], serials: Mapping[str, int]) -> None:
    """Make `into` a checkpoint with the state of `checkpoint`. See `CheckpointFormat.derive`."""
    scratch = into.with_name(f"{into.name}.deriving")
    batch = snapshot(checkpoint, scratch)
    if batch is None:
        shutil.rmtree(scratch)
        return
    # Spark looks at the newest two, and expects as many sources in both as the plan has.
    for directory in (scratch / "offsets", scratch / "commits"):
        _keep_newest(directory, 2)
    for path in (scratch / "offsets").iterdir():
        _replace(path, _rewritten(path.read_text(), before, serials))
    # They may hold absolute paths. They are links to the old checkpoint's files, so they are replaced.
    for path in scratch.glob("state/*/_metadata/v2/*"):
        if path.is_file() and not is_transient(path):
            _replace(path, path.read_text(errors="surrogateescape"))
    shutil.rmtree(into, ignore_errors=True)
    scratch.rename(into)
    relocate(into)
    assert newest_commit(into) == batch


def _keep_newest(directory: Path, count: int) -> None:
    numbered = sorted((int(path.name), path) for path in directory.iterdir() if path.name.isdigit())
    for _, path in numbered[:-count]:
        path.unlink()


def _rewritten(text: str, before: Sequence[str], serials: Mapping[str, int]) -> str:
    """Return a file of offsets with other serials.

    A plan with several branches reads all inputs per branch.
    """
    lines, known = text.splitlines(), last_offsets(text, before)
    branches = (len(lines) - HEADER_LINES) // len(before)
    offsets = [json.dumps(_going_on(known.get(name), serial).document()) for name, serial in serials.items()]
    return "\n".join([*lines[:HEADER_LINES], *offsets * branches])


def _going_on(known: Offset | None, serial: int) -> Offset:
    """Return an offset at a serial number. Where the old job stopped, its event is known, and the new one
    restarts there."""
    if known is not None and known.serial == serial:
        return Offset(serial, nudges=known.nudges, stored_at=known.stored_at)
    return Offset(serial)


def _replace(path: Path, text: str) -> None:
    write_atomically(path, text.encode(errors="surrogateescape"), durable=False)
