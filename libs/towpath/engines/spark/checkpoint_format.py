"""Spark's checkpoints, in the words of `CheckpointFormat`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from towpath.checkpoints.inventory import inventory
from towpath.engines.checkpoint_format import CheckpointFormat
from towpath.engines.spark import layout
from towpath.engines.spark.derivation import derive
from towpath.engines.spark.lineage import Outdated
from towpath.engines.spark.shipment import SparkShipment


class SparkCheckpoints(CheckpointFormat):
    """The format of a Structured Streaming query with RocksDB state and changelogs."""

    def newest_batch(self, checkpoint: Path) -> int | None:
        """Return the newest of `commits/`."""
        return layout.newest_commit(checkpoint)

    def unfinished_batch(self, checkpoint: Path) -> int | None:
        """Return the newest of `offsets/` if it is not in `commits/`."""
        return layout.unfinished_batch(checkpoint)

    def committed_serials(self, checkpoint: Path, inputs: Sequence[str]) -> dict[str, int]:
        """Return the offsets of the newest committed micro-batch."""
        return layout.committed_serials(checkpoint, inputs)

    def committed_times(self, checkpoint: Path, inputs: Sequence[str]) -> dict[str, str]:
        """Return the times in the offsets of the newest committed micro-batch."""
        return layout.committed_times(checkpoint, inputs)

    def inventory(self, checkpoint: Path) -> dict[str, str]:
        """Return all files but those of earlier versions of the state."""
        batch = layout.newest_commit(checkpoint)
        return inventory(checkpoint, without=() if batch is None else Outdated(checkpoint, batch))

    def relocate(self, checkpoint: Path) -> None:
        """Rewrite the absolute paths that some operators' metadata hold."""
        layout.relocate(checkpoint)

    def shipment(self, checkpoint: Path, directory: Path) -> SparkShipment:
        """Copies that continue from one another by changelogs."""
        return SparkShipment(checkpoint, directory)

    def derive(self, checkpoint: Path, into: Path, before: Sequence[str], serials: Mapping[str, int]) -> None:
        """Rewrite the offsets of a copy."""
        derive(checkpoint, into, before, serials)


SPARK_CHECKPOINTS = SparkCheckpoints()
