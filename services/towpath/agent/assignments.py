"""A site's jobs on its own disk, so that a site that is cut off or restarted goes on alone.

jobs/<job>/assignment.json       the assignment (absent: nothing must run)
jobs/<job>/checkpoint-<n>/       state of generation n
jobs/<job>/incoming/             state that is arriving in a migration
jobs/<job>/outgoing/             links to the state being sent, and to the state it continues from
jobs/<job>/cache/                state as it was when the job left, so that a return transfers less; or the
                                 copy that a standby has
jobs/<job>/standby.json          what that copy is; absent: no copy is whole
jobs/<job>/role                  the migration in which this site is source or target
jobs/<job>/derived-<n>           marks how `checkpoint-<n>` was made from the previous generation's
jobs/<job>/restored              digest of the state that `checkpoint-<n>` was made from
jobs/<job>/left                  marks that the job has left, as long as its checkpoint is not the cache yet
jobs/.forgotten/<job>-<time>     what is being deleted
jobs/.aside/<job>-<time>         checkpoints that no assignment explained; nothing deletes them
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from pathlib import Path

from towpath.atomic_write import sync_directory, sync_tree, write_atomically
from towpath.checkpoints.inventory import digest_of_inventory, inventory, is_transient
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState
from towpath.contracts.migration import Paused
from towpath.contracts.site_commands import StateSize
from towpath.contracts.standby import StandbyCopy
from towpath.engines.checkpoint_format import CheckpointFormat

log = logging.getLogger(__name__)


class AssignmentStore:
    """Files of one site. A change is either complete or absent. Methods block briefly."""

    def __init__(self, directory: Path, checkpoints: CheckpointFormat, *, durable: bool = True) -> None:
        """`checkpoints` is the format of the site's engine. `durable` ones survive a power cut."""
        self.directory = directory
        self.durable = durable
        self.checkpoints = checkpoints

    def load_all(self) -> dict[str, Assignment]:
        """Return all assignments by job. Delete what is left of deletions that were interrupted."""
        shutil.rmtree(self.directory / ".forgotten", ignore_errors=True)
        found = (path for path in self.directory.glob("*/assignment.json"))
        assignments = [Assignment.from_json(path.read_bytes()) for path in found]
        return {assignment.spec.name: assignment for assignment in assignments}

    def save(self, assignment: Assignment) -> None:
        """Store an assignment durably."""
        directory = self._of(assignment.spec.name)
        directory.mkdir(parents=True, exist_ok=True)
        sync_directory(self.directory)
        write_atomically(directory / "assignment.json", assignment.model_dump_json(indent=1))
        (directory / "left").unlink(missing_ok=True)

    def checkpoint(self, assignment: Assignment) -> Path:
        """Return the directory of the job's state: at a standby, of the copy."""
        if assignment.desired is DesiredState.STANDBY:
            return self.cache(assignment.spec.name)
        return self._of(assignment.spec.name) / f"checkpoint-{assignment.generation}"

    def position(self, assignment: Assignment) -> dict[str, int]:
        """Return input → last serial number processed, or where the job begins."""
        return self.checkpoints.position(self.checkpoint(assignment), assignment)

    def times(self, assignment: Assignment) -> dict[str, str]:
        """Return input → when the last event processed was stored, as far as the checkpoint knows."""
        names = [entry.name for entry in assignment.inputs]
        return self.checkpoints.committed_times(self.checkpoint(assignment), names)

    def paused(self, assignment: Assignment) -> Paused:
        """Return position and newest committed micro-batch of a job that does not run."""
        return self.checkpoints.paused(self.checkpoint(assignment), assignment)

    def incoming(self, job: str) -> Path:
        """Return the directory of arriving state."""
        return self._of(job) / "incoming"

    def outgoing(self, job: str) -> Path:
        """Return the directory of state that is being sent while the job runs on."""
        return self._of(job) / "outgoing"

    def measure(self, assignment: Assignment) -> StateSize:
        """Return files and bytes of the job's checkpoint. Files that disappear meanwhile do not count."""
        sizes: list[int] = []
        for path in self.checkpoint(assignment).rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and not is_transient(path):
                    sizes.append(path.stat().st_size)
        return StateSize(files=len(sizes), state_bytes=sum(sizes))

    def take_role(self, job: str, operation: str) -> None:
        """Record durably in which migration the site has a role. A new role replaces an older one."""
        self._of(job).mkdir(parents=True, exist_ok=True)
        write_atomically(self._of(job) / "role", operation)

    def role(self, job: str) -> str | None:
        """Return the migration in which the site has a role. None if there is none."""
        path = self._of(job) / "role"
        return path.read_text() if path.exists() else None

    def has_role(self, job: str, operation: str) -> bool:
        """True if the site has a role in this very migration."""
        return self.role(job) == operation

    def end_role(self, job: str) -> None:
        """Record that the site no longer has a role."""
        (self._of(job) / "role").unlink(missing_ok=True)

    def cache(self, job: str) -> Path:
        """Return the directory of state from an earlier stay."""
        return self._of(job) / "cache"

    def adopt_incoming(self, assignment: Assignment, digest: str) -> bool:
        """Make the state that arrived the job's checkpoint. False if it does not have this `digest`.

        It may be repeated after a crash at any line. The digest is stored after all other checkpoints are
        gone and before the state moves. So a checkpoint beside its digest is the one that arrived.
        """
        job = assignment.spec.name
        incoming, checkpoint = self.incoming(job), self.checkpoint(assignment)
        restored = self._of(job) / "restored"
        if not (restored.exists() and restored.read_text() == digest and checkpoint.exists()):
            if digest_of_inventory(inventory(incoming)) != digest:
                return False
            restored.unlink(missing_ok=True)
            if checkpoint.exists():
                shutil.rmtree(checkpoint)
            self._sync(incoming)  # The source forgets it soon.
            write_atomically(restored, digest)
            incoming.rename(checkpoint)
        self.checkpoints.relocate(checkpoint)
        self._sync(checkpoint)
        return True

    def standby_copy(self, assignment: Assignment) -> StandbyCopy | None:
        """Return what the copy at a standby is; None if it has none of the job's present owner."""
        job = assignment.spec.name
        note = self._of(job) / "standby.json"
        if not (note.exists() and self.cache(job).is_dir()):
            return None
        copy = StandbyCopy.from_json(note.read_bytes())
        return copy if (copy.epoch, copy.generation) == (assignment.epoch, assignment.generation) else None

    def adopt_standby(self, assignment: Assignment, arrived: StandbyCopy) -> bool:
        """Make the state that has arrived the standby's copy. False if it does not have its digest.

        It may be repeated after a crash at any line. While there is no note, there is no copy, and the next
        one is on its way. The files of an interrupted change spare the next transfer most of its work.
        """
        job = assignment.spec.name
        note, incoming, cache = self._of(job) / "standby.json", self.incoming(job), self.cache(job)
        if note.exists() and StandbyCopy.from_json(note.read_bytes()).digest == arrived.digest:
            write_atomically(note, arrived.model_dump_json())
            return True
        if digest_of_inventory(inventory(incoming)) != arrived.digest:
            return False
        self._sync(incoming)
        note.unlink(missing_ok=True)
        shutil.rmtree(cache, ignore_errors=True)
        incoming.rename(cache)
        sync_directory(self._of(job))
        write_atomically(note, arrived.model_dump_json())
        return True

    def begin_from_standby(self, kept: Assignment, assignment: Assignment) -> None:
        """Make the copy of a standby (`kept`) the checkpoint of its new assignment. It may be repeated.

        Raises `TowpathError` if there is none.
        """
        job = assignment.spec.name
        note, cache, checkpoint = self._of(job) / "standby.json", self.cache(job), self.checkpoint(assignment)
        if cache.is_dir() and self.standby_copy(kept) is not None:
            shutil.rmtree(checkpoint, ignore_errors=True)
            cache.rename(checkpoint)
        elif not checkpoint.is_dir():
            raise TowpathError(
                ErrorCode.FAILED, "there is no copy of the job's state here", field="job", value=job
            )
        self.checkpoints.relocate(checkpoint)
        self._sync(checkpoint)
        note.unlink(missing_ok=True)

    def _sync(self, checkpoint: Path) -> None:
        if self.durable and checkpoint.exists():
            sync_tree(checkpoint)

    def start_afresh(self, assignment: Assignment) -> None:
        """Delete any state, so that the job begins at its inputs' serial numbers."""
        shutil.rmtree(self.checkpoint(assignment), ignore_errors=True)
        self.drop_incoming(assignment.spec.name)

    def derive(self, known: Assignment, assignment: Assignment) -> None:
        """Make the first checkpoint of a generation from the last one of `known`, as `derived` says.

        It may be repeated after a crash at any line. A checkpoint left by an earlier, undone change is
        replaced.
        """
        assert assignment.derived is not None
        mark = self._of(assignment.spec.name) / f"derived-{assignment.generation}"
        wanted = assignment.model_dump_json(include={"derived", "epoch", "inputs"})
        checkpoint = self.checkpoint(assignment)
        if mark.exists() and mark.read_text() == wanted:
            return
        shutil.rmtree(checkpoint, ignore_errors=True)
        carried = assignment.derived.serials
        serials = {e.name: carried.get(e.name, e.after_serial or 0) for e in assignment.inputs}
        # Where a stream has other numbers now, the old offset says nothing.
        numbering = {entry.name: entry.numbering for entry in assignment.inputs}
        before = [e.name if numbering.get(e.name) == e.numbering else "" for e in known.inputs]
        self.checkpoints.derive(self.checkpoint(known), checkpoint, before, serials)
        self._sync(checkpoint)
        write_atomically(mark, wanted)

    def drop_incoming(self, job: str) -> None:
        """Delete arriving state."""
        shutil.rmtree(self.incoming(job), ignore_errors=True)
        (self._of(job) / "restored").unlink(missing_ok=True)

    def leave(self, assignment: Assignment) -> None:
        """Keep the state of a job that has left as a cache, for a cheaper return."""
        job = assignment.spec.name
        left = self._of(job) / "left"
        write_atomically(left, "")
        (self._of(job) / "assignment.json").unlink(missing_ok=True)
        checkpoint = self.checkpoint(assignment)
        if checkpoint.exists() and checkpoint != self.cache(job):
            (self._of(job) / "standby.json").unlink(missing_ok=True)
            shutil.rmtree(self.cache(job), ignore_errors=True)
            checkpoint.rename(self.cache(job))
        self.drop_incoming(job)
        for earlier in (*self._of(job).glob("checkpoint-*"), *self._of(job).glob("derived-*")):
            shutil.rmtree(earlier) if earlier.is_dir() else earlier.unlink()
        left.unlink()

    def forget(self, job: str) -> None:
        """Delete everything about a job, at once for everyone who looks."""
        if self._of(job).exists():
            shutil.rmtree(self._moved(job, ".forgotten"), ignore_errors=True)

    def make_room(self, assignment: Assignment, *, adopt: bool) -> bool:
        """Prepare for a job without an assignment here. Return True if its state is here all the same.

        A machine that lost its power may have lost the assignment, and not the checkpoint. With `adopt` the
        job was at this site before, and goes on from a checkpoint of its generation. Any other checkpoint
        that nothing explains is put aside.
        """
        job = assignment.spec.name
        unexplained = [*self._of(job).glob("checkpoint-*")]
        if not unexplained or (self._of(job) / "left").exists():
            self.forget(job)
            return False
        if adopt and self.checkpoint(assignment).exists():
            log.warning("%s goes on from a checkpoint whose assignment is lost", job)
            return True
        log.error(
            "checkpoints of %s that no assignment explains are put into %s", job, self._moved(job, ".aside")
        )
        return False

    def _moved(self, job: str, into: str) -> Path:
        """Move the directory of a job out of the way. Return its new place."""
        place = self.directory / into / f"{job}-{time.time_ns()}"
        place.parent.mkdir(exist_ok=True)
        self._of(job).rename(place)
        sync_directory(self.directory)
        return place

    def _of(self, job: str) -> Path:
        return self.directory / job


def held(assignment: Assignment, migration: str | None) -> Assignment:
    """Return the assignment as prepared and not running."""
    return assignment.model_copy(update={"desired": DesiredState.HELD, "migration": migration})


def owned(assignment: Assignment) -> Assignment:
    """Return the assignment as running, after any migration."""
    return assignment.model_copy(update={"desired": DesiredState.RUNNING, "migration": None})


def going_on_after(assignment: Assignment, serials: dict[str, int]) -> Assignment:
    """Return the assignment beginning after these serial numbers (input → serial)."""
    inputs = [
        entry.model_copy(update={"after_serial": serials.get(entry.name, entry.after_serial)})
        for entry in assignment.inputs
    ]
    return assignment.model_copy(update={"inputs": inputs})


def beginnings_of(assignment: Assignment) -> dict[str, int]:
    """Return where the job began in each input, as far as that is settled (input → serial)."""
    return {e.name: e.after_serial for e in assignment.inputs if e.after_serial is not None}
