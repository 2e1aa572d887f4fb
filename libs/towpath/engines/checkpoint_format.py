"""The checkpoint of a job, as an agent sees it: a directory that the engine writes and the agent carries.

Agents never look into it themselves. They rely on four properties, whatever the engine:

1. Files never change in place once they are visible. So a hard link is a copy, and a digest stays right.
2. A micro-batch is planned before it runs, and committed after its results are stored. One that was planned
   and not committed runs again over the same events.
3. It does not depend on the path where it lies, at least not after `relocate`.
4. Files that `checkpoints.inventory.is_transient` names (`*.tmp`, `*.crc`) are no part of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

from towpath.checkpoints.inventory import inventory
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.migration import Paused


class Shipment(Protocol):
    """Copies of the checkpoint of a running job, one after the other. All methods block."""

    keep_every_s: float
    """Longest time between two calls of `keep`."""

    @property
    def copy(self) -> Path:
        """Directory of the newest copy."""
        ...

    def keep(self) -> None:
        """Keep what a later copy may need, before the engine deletes it."""
        ...

    def renew(self) -> int | None:
        """Copy the checkpoint as it is now.

        Returns the newest committed micro-batch of the copy. Without one, returns None and the copy is empty.
        """
        ...


class CheckpointFormat(ABC):
    """Everything that an agent does with checkpoints of one kind of engine. All methods block.

    `shipment` and `derive` are capabilities: an engine that lacks one leaves the method out. Commands that
    need it are then refused.
    """

    @abstractmethod
    def newest_batch(self, checkpoint: Path) -> int | None:
        """Return the number of the newest committed micro-batch. None if there is none."""

    @abstractmethod
    def unfinished_batch(self, checkpoint: Path) -> int | None:
        """Return the number of a micro-batch that was planned and not committed. None if there is none."""

    @abstractmethod
    def committed_serials(self, checkpoint: Path, inputs: Sequence[str]) -> dict[str, int]:
        """Return input → last serial number that is processed and committed. Empty if none is.

        `inputs` are the job's input names in the order of its assignment.
        """

    def committed_times(self, checkpoint: Path, inputs: Sequence[str]) -> dict[str, str]:
        """Return input → when the stream stored the last event that is processed, as far as it is known."""
        return {}

    def inventory(self, checkpoint: Path) -> dict[str, str]:
        """Return relative path → digest of each file that a copy at another site needs.

        The result stays the same for such a copy. It leaves out what only earlier micro-batches needed, if
        the engine keeps that.
        """
        return inventory(checkpoint)

    def relocate(self, checkpoint: Path) -> None:  # noqa: B027 - most formats have nothing to do
        """Make a checkpoint that came from elsewhere fit its new place. It may be repeated."""

    def shipment(self, checkpoint: Path, directory: Path) -> Shipment:
        """Begin to copy the checkpoint of a running job. No one else uses `directory`."""
        refuse("copy the checkpoint of a running job", allowed="strategy general or restart")

    def derive(self, checkpoint: Path, into: Path, before: Sequence[str], serials: Mapping[str, int]) -> None:
        """Make `into` a checkpoint with the state of `checkpoint`, which is not in use, and other inputs.

        `before` are the names of the old job's inputs, in order. `serials` has, for each input of the new job
        in order, the serial number after which it continues. Without a committed micro-batch there is no
        state, and `into` is not made. It appears complete or not at all.
        """
        refuse("change the inputs of a job and keep its state", allowed="a new job in its place")

    def position(self, checkpoint: Path, assignment: Assignment) -> dict[str, int]:
        """Return input → last serial number processed and committed, or where the job begins."""
        names = [entry.name for entry in assignment.inputs]
        begin = {e.name: e.after_serial for e in assignment.inputs if e.after_serial is not None}
        return begin | self.committed_serials(checkpoint, names)

    def paused(self, checkpoint: Path, assignment: Assignment) -> Paused:
        """Return position and newest committed micro-batch of a job that does not run."""
        return Paused(
            serials=self.position(checkpoint, assignment),
            batch=self.newest_batch(checkpoint),
            last_processed_at=None,
        )


def refuse(what: str, *, allowed: str) -> NoReturn:
    """Raise `TowpathError` for a capability that an engine lacks."""
    raise TowpathError(ErrorCode.NOT_ALLOWED, f"the engine of this site cannot {what}", allowed=allowed)
