"""Copies of the checkpoint of a running query while it is shipped. Each continues from the one before.

The target has the earlier copy already, so only the difference travels. Sooner or later the query makes a new
snapshot of its state, from which every later version follows, and deletes what came before. In a large state,
changing one key in a hundred is enough for a snapshot of other files, because a store's levels are merged.
Then everything would travel again, and once more meanwhile.

But the old snapshot and all changelogs since make the same state. So changelogs are kept as they appear.
Where they are the smaller of the two, the copy is made of them. Its newest changelog then says that it
follows from the old snapshot.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from towpath.engines.spark.changelog import Version, lineage_of, write_with_lineage
from towpath.engines.spark.layout import newest_commit
from towpath.engines.spark.lineage import (
    UNREADABLE,
    Parts,
    identifiers_at,
    is_state,
    parts_of,
    stores,
)
from towpath.engines.spark.snapshot import snapshot

log = logging.getLogger(__name__)


class SparkShipment:
    """Copies of a live checkpoint, below a directory that no one else uses. All methods block."""

    keep_every_s = 0.5
    """Spark deletes changelogs while it uploads a snapshot, at most every ten seconds: those that follow from
    the snapshot before the last one."""

    def __init__(self, checkpoint: Path, directory: Path) -> None:
        self._checkpoint = checkpoint
        self.copy = directory / "newest"
        self._before = directory / "before"
        self._changelogs = directory / "changelogs"
        self._rewritten = directory / "rewritten"

    def keep(self) -> None:
        """Link the changelogs that are there, before the query deletes them."""
        for path in (self._checkpoint / "state").rglob("[0-9]*_*.changelog"):
            name = self._changelogs / path.relative_to(self._checkpoint)
            name.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError, FileNotFoundError):  # Kept before, or gone already.
                os.link(path, name)

    def renew(self) -> int | None:
        """Copy the checkpoint as it is now. Return its newest micro-batch, as `snapshot` does."""
        shutil.rmtree(self._before, ignore_errors=True)
        if self.copy.exists():
            self.copy.rename(self._before)
        batch = snapshot(self._checkpoint, self.copy)
        self.keep()
        before = newest_commit(self._before)
        if batch is not None and before is not None:
            old, new = identifiers_at(self._before, before), identifiers_at(self.copy, batch)
            for store in (path.relative_to(self.copy) for path in stores(self.copy)):
                had = parts_of(self._before / store, before + 1, old)
                has = parts_of(self.copy / store, batch + 1, new)
                if had is not None and has is not None and had.base != has.base:
                    self._continue(store, had, has)
        return batch

    def _continue(self, store: Path, old: Parts, new: Parts) -> None:
        """Make a store's newest state of the last copy and the changelogs since, if they are smaller."""
        try:
            changes = self._changes(store, old, new)
        except UNREADABLE as error:
            log.info(
                "%s: the new snapshot is sent, because the old one cannot be continued: %s",
                store,
                error,
            )
            return
        if _bytes(changes, old) < _bytes((self.copy / store / name for name in new.names), old):
            self._replace(store, old, changes)

    def _changes(self, store: Path, old: Parts, new: Parts) -> list[Path]:
        """Return the changelogs from the old snapshot, or from version 1. The newest has that lineage."""
        kept = self._changelogs / store
        lineage = extended(new.lineage, old.base, lambda version: kept / version.changelog)
        *earlier, newest = [version for version in lineage if version != old.base]
        self._rewritten.mkdir(exist_ok=True)
        rewritten = self._rewritten / newest.changelog
        rewritten.unlink(missing_ok=True)
        write_with_lineage(kept / newest.changelog, lineage[:-1], rewritten)
        return [*(self._as_sent(store, version) for version in earlier), rewritten]

    def _as_sent(self, store: Path, version: Version) -> Path:
        """Return a version's changelog: that of the last copy if it had one, else the kept one."""
        sent = self._before / store / version.changelog
        found = sent if sent.exists() else self._changelogs / store / version.changelog
        if not found.exists():
            raise FileNotFoundError(f"{version.changelog} was deleted before it was kept")
        return found

    def _replace(self, store: Path, old: Parts, changes: Iterable[Path]) -> None:
        copy = self.copy / store
        for path in [path for path in copy.rglob("*") if is_state(path.relative_to(copy).as_posix())]:
            path.unlink()
        for path in changes:
            os.link(path, copy / path.name)
        for name in old.names:
            (copy / name).parent.mkdir(exist_ok=True)
            with contextlib.suppress(FileExistsError):  # This one has a longer lineage now.
                os.link(self._before / store / name, copy / name)


def extended(
    lineage: list[Version], base: Version | None, changelog: Callable[[Version], Path]
) -> list[Version]:
    """Return a lineage back to an older snapshot, or to version 1.

    Args:
        lineage: oldest version first
        base: the snapshot; None goes back to version 1
        changelog: returns the path of a version's changelog

    Raises:
        ValueError, OSError: the lineage does not lead there.
    """
    oldest = 1 if base is None else base.number
    while lineage[0].number > oldest:
        earlier = lineage_of(changelog(lineage[0]))
        if not earlier or earlier[-1].number != lineage[0].number - 1:
            raise ValueError(f"version {lineage[0].number} does not follow from the one before it")
        lineage = [*earlier, *lineage]
    found = [version for version in lineage if version.number >= oldest]
    if [version.number for version in found] != list(range(oldest, oldest + len(found))):
        raise ValueError(f"a version is missing between {oldest} and {lineage[-1].number}")
    if base is not None and base not in found[:1]:
        raise ValueError(f"{lineage[-1].name} does not follow from {base.name}")
    return found


def _bytes(paths: Iterable[Path], old: Parts) -> int:
    """Return the size of those files that the last copy did not have."""
    there = {Path(name).name for name in old.names}
    return sum(path.stat().st_size for path in paths if path.name not in there)
