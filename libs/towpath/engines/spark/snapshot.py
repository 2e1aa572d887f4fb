"""A consistent copy of the checkpoint of a running query, without stopping it.

Spark's files never change once they are visible, so the copy is made of hard links. It costs no space, and
takes milliseconds for a state of any size. The order makes it consistent:

1. the newest committed micro-batch N;
2. state: first files that refer to others (archives of snapshots, changelogs), then those they refer to;
3. offsets up to N only, so that a query that starts from the copy plans micro-batch N + 1 again.

The copy has only those files of a store that its newest committed version needs. Where they cannot be found
out, it has later versions and history as well. Those have names of their own, because each writer adds an
identifier, and no one asks for them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from towpath.checkpoints.inventory import is_transient
from towpath.engines.spark.layout import newest_commit
from towpath.engines.spark.lineage import STATE_FILES, Outdated


def snapshot(checkpoint: Path, into: Path) -> int | None:
    """Link the newest committed state of a live checkpoint into `into`, which replaces an earlier copy.

    Returns the number of the newest micro-batch in it. If nothing was committed yet, returns None and leaves
    an empty copy.
    """
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    batch = newest_commit(checkpoint)
    if batch is None:
        return None
    for path in _in_order(checkpoint, batch):
        target = into / path.relative_to(checkpoint)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, target)
        except FileNotFoundError:
            continue  # Maintenance has deleted an old version, which the newest does not need.
    return batch


def _in_order(checkpoint: Path, batch: int) -> Iterator[Path]:
    yield from _numbered_through(checkpoint / "commits", batch)
    outdated = Outdated(checkpoint, batch)
    state = [path for path in (checkpoint / "state").rglob("*") if path.is_file() and not is_transient(path)]
    yield from (path for path in state if STATE_FILES not in path.parts and path not in outdated)
    # Listed again, because the files of an archive were complete before the archive appeared.
    referred = (path for path in (checkpoint / "state").rglob(f"{STATE_FILES}/*") if not is_transient(path))
    yield from (path for path in referred if path not in outdated)
    yield from _numbered_through(checkpoint / "offsets", batch)
    for path in checkpoint.iterdir():
        if path.is_file() and not is_transient(path):
            yield path


def _numbered_through(directory: Path, batch: int) -> Iterator[Path]:
    for path in directory.iterdir():
        if path.name.isdigit() and int(path.name) <= batch:
            yield path
