"""The behaviour of every engine's binder and format of checkpoints.

A module makes a subclass of `EngineSuite` whose name begins with `Test`, with a fixture `engine` that returns
a `PlayedEngine`. `test_engine_binders.py` does so for all engines of the registry.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from towpath.checkpoints.inventory import digest_of_inventory, inventory
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.contracts.site import EngineSpec
from towpath.engines.binder import EngineBinder
from towpath.engines.checkpoint_format import CheckpointFormat

ONE = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
A, B = (
    ONE.inputs[0].model_copy(update={"name": f"jfk/{name}", "after_serial": after})
    for name, after in (("a", 5), ("b", 7))
)
TWO = ONE.model_copy(update={"inputs": [A, B]})
"""A job with two inputs that begin after serial numbers 5 and 7."""

NAMES = [A.name, B.name]


class Writer(Protocol):
    """Writes the checkpoint of a job, and loads its state, as the engine does."""

    def plan(self, checkpoint: Path, batch: int, serials: Sequence[int]) -> None:
        """Plan a micro-batch that reads each input up to a serial number."""
        ...

    def commit(self, checkpoint: Path, batch: int) -> None:
        """Run and commit the planned micro-batch. It adds `change(batch)` to the state.

        Files that the newest states no longer need may be deleted at this moment.
        """
        ...

    def state(self, checkpoint: Path) -> list[str]:
        """Load the state of the newest committed micro-batch: all changes, oldest first."""
        ...


@dataclass(frozen=True)
class PlayedEngine:
    """A binder, and what plays the engine's process."""

    binder: EngineBinder
    writer: Writer

    @property
    def checkpoints(self) -> CheckpointFormat:
        return self.binder.checkpoints

    def process(self, checkpoint: Path, through: int) -> None:
        """Go on up to micro-batch `through`: each takes ten events of the first input, one of the second."""
        newest = self.checkpoints.newest_batch(checkpoint)
        for batch in range(0 if newest is None else newest + 1, through + 1):
            self.writer.plan(checkpoint, batch, serials(batch))
            self.writer.commit(checkpoint, batch)


def serials(batch: int) -> list[int]:
    return [5 + 10 * (batch + 1), 7 + batch + 1]


def serials_of(*serials: int) -> dict[str, int]:
    """Return input → serial number, for the old inputs and a new one."""
    return dict(zip([*NAMES, "jfk/c"], serials, strict=True))


def position(batch: int) -> dict[str, int]:
    return dict(zip(NAMES, serials(batch), strict=True))


def change(batch: int) -> str:
    return f"change {batch}"


def changes(through: int) -> list[str]:
    return [change(batch) for batch in range(through + 1)]


def copied(files: dict[str, str], checkpoint: Path, into: Path) -> Path:
    """A copy of exactly these files, such as a transfer makes."""
    for name in files:
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(checkpoint / name, into / name)
    return into


def names_path(path: Path, directory: Path) -> bool:
    """A file of the directory has this path in it."""
    return any(str(path).encode() in file.read_bytes() for file in directory.rglob("*") if file.is_file())


def refused(call: str, checkpoints: CheckpointFormat) -> bool:
    """The engine lacks this capability."""
    return getattr(type(checkpoints), call) is getattr(CheckpointFormat, call)


class EngineSuite:
    """Needs a fixture `engine`."""

    def test_command_when_asked_for_then_starts_one_process_per_setup(
        self, engine: PlayedEngine, tmp_path: Path
    ) -> None:
        one, other = (engine.binder.command(tmp_path / site / "setup.json") for site in ("jfk", "lga"))

        assert one != other
        assert engine.binder.command(tmp_path / "jfk" / "setup.json") == one, "a restart needs the same"
        assert engine.binder.ready_s(EngineSpec()) > 0

    def test_position_when_nothing_is_committed_then_is_where_the_job_begins(
        self, engine: PlayedEngine, tmp_path: Path
    ) -> None:
        paused = engine.checkpoints.paused(tmp_path / "checkpoint", TWO)

        assert (paused.batch, paused.serials) == (None, {A.name: 5, B.name: 7})
        assert engine.checkpoints.unfinished_batch(tmp_path / "checkpoint") is None

    def test_position_when_batches_are_committed_then_is_that_of_the_newest(
        self, engine: PlayedEngine, tmp_path: Path
    ) -> None:
        engine.process(tmp_path, 11)

        paused = engine.checkpoints.paused(tmp_path, TWO)

        assert (paused.batch, paused.serials) == (11, position(11))
        assert engine.checkpoints.unfinished_batch(tmp_path) is None

    def test_batch_when_planned_and_not_committed_then_is_unfinished_and_its_events_do_not_count(
        self, engine: PlayedEngine, tmp_path: Path
    ) -> None:
        engine.process(tmp_path, 2)
        engine.writer.plan(tmp_path, 3, serials(3))

        assert engine.checkpoints.unfinished_batch(tmp_path) == 3
        assert engine.checkpoints.newest_batch(tmp_path) == 2
        assert engine.checkpoints.position(tmp_path, TWO) == position(2)

    def test_inventory_when_only_its_files_are_copied_then_the_job_can_go_on_from_the_copy(
        self, engine: PlayedEngine, tmp_path: Path
    ) -> None:
        there = tmp_path / "there"
        engine.process(there, 11)
        files = engine.checkpoints.inventory(there)

        here = copied(files, there, tmp_path / "here")
        assert digest_of_inventory(inventory(here)) == digest_of_inventory(files), "what arrives is checked"
        assert engine.checkpoints.inventory(here) == files
        shutil.rmtree(there)
        for _ in range(2):  # An agent may be killed and repeat it.
            engine.checkpoints.relocate(here)

        assert not names_path(there, here)
        assert engine.checkpoints.position(here, TWO) == position(11)
        assert engine.writer.state(here) == changes(11)
        engine.process(here, 20)
        assert engine.writer.state(here) == changes(20)

    def test_inventory_when_files_are_transient_then_leaves_them_out(
        self, engine: PlayedEngine, tmp_path: Path
    ) -> None:
        engine.process(tmp_path, 2)
        before = engine.checkpoints.inventory(tmp_path)
        for name in ("half.tmp", ".half.tmp-1", ".sum.crc"):
            (tmp_path / name).touch()

        assert engine.checkpoints.inventory(tmp_path) == before

    def test_shipment_when_the_job_runs_on_then_each_copy_is_the_newest_committed_state(
        self, engine: PlayedEngine, tmp_path: Path
    ) -> None:
        checkpoint = tmp_path / "checkpoint"
        engine.process(checkpoint, 2)
        if refused("shipment", engine.checkpoints):
            self.is_refused(lambda: engine.checkpoints.shipment(checkpoint, tmp_path / "outgoing"))
            return
        shipment = engine.checkpoints.shipment(checkpoint, tmp_path / "outgoing")

        for through in range(3, 40, 7):
            for batch in range(through - 7, through + 1):
                engine.process(checkpoint, batch)
                shipment.keep()
            engine.writer.plan(checkpoint, through + 1, serials(through + 1))
            assert shipment.renew() == through
            assert engine.checkpoints.newest_batch(shipment.copy) == through
            assert engine.checkpoints.unfinished_batch(shipment.copy) is None
            assert engine.checkpoints.position(shipment.copy, TWO) == position(through)
            assert engine.writer.state(shipment.copy) == changes(through)
        shutil.rmtree(checkpoint)
        assert engine.writer.state(shipment.copy) == changes(through)
        assert shipment.keep_every_s > 0

    def test_shipment_when_nothing_is_committed_then_the_copy_is_empty(
        self, engine: PlayedEngine, tmp_path: Path
    ) -> None:
        if refused("shipment", engine.checkpoints):
            pytest.skip("the engine lacks this capability")
        engine.writer.plan(tmp_path / "checkpoint", 0, serials(0))
        shipment = engine.checkpoints.shipment(tmp_path / "checkpoint", tmp_path / "outgoing")

        assert shipment.renew() is None
        assert inventory(shipment.copy) == {}

    def test_derivation_when_inputs_change_then_has_the_state_and_reads_on_where_it_is_told(
        self, engine: PlayedEngine, tmp_path: Path
    ) -> None:
        checkpoint, derived = tmp_path / "checkpoint-1", tmp_path / "checkpoint-2"
        engine.process(checkpoint, 11)
        if refused("derive", engine.checkpoints):
            self.is_refused(
                lambda: engine.checkpoints.derive(checkpoint, derived, NAMES, serials_of(1, 2, 3))
            )
            return
        before = engine.checkpoints.inventory(checkpoint)

        engine.checkpoints.derive(checkpoint, derived, NAMES, serials_of(100, 200, 300))

        serials_there = engine.checkpoints.committed_serials(derived, [*NAMES, "jfk/c"])
        assert serials_there == serials_of(100, 200, 300)
        assert engine.checkpoints.newest_batch(derived) == 11
        assert engine.writer.state(derived) == changes(11)
        assert not names_path(checkpoint, derived)
        assert engine.checkpoints.inventory(checkpoint) == before, "an undone change needs it"

    def test_derivation_when_there_is_no_state_then_makes_nothing(
        self, engine: PlayedEngine, tmp_path: Path
    ) -> None:
        if refused("derive", engine.checkpoints):
            pytest.skip("the engine lacks this capability")
        engine.writer.plan(tmp_path / "checkpoint-1", 0, serials(0))

        engine.checkpoints.derive(
            tmp_path / "checkpoint-1", tmp_path / "checkpoint-2", NAMES, serials_of(1, 2, 3)
        )

        assert not (tmp_path / "checkpoint-2").exists()

    @staticmethod
    def is_refused(call: object) -> None:
        with pytest.raises(TowpathError) as error:
            call()  # type: ignore[operator]
        assert error.value.detail.code is ErrorCode.NOT_ALLOWED
        assert error.value.detail.allowed
