"""Cut the power of a mounted disk, or fill it. `python -m towpath.lab.power` mounts it and obeys."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from towpath.atomic_write import write_atomically
from towpath.tasks import wait_until

MODULE = "towpath.lab.power"

FORGETS_S = 60.0
"""For a disk to be unmounted, to forget, and to be mounted again. All that it has kept is copied."""

LOOK_EVERY_S = 0.02


@dataclass(frozen=True)
class Mount:
    """A mounted disk, and the process that serves it."""

    process: psutil.Process
    directory: Path
    """Where its content is, see `towpath.lab.power.disk`."""
    point: Path

    def cut_power(self) -> None:
        """Let the disk forget what was not synced, and mount it again. No process may use it meanwhile.

        Raises `NotInTime` if it is not mounted again in time.
        """
        before = cuts(self.directory)
        self.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: cuts(self.directory) > before and self.point.is_mount(), FORGETS_S, LOOK_EVERY_S)

    def fill(self) -> None:
        """Let every write fail from now on, as on a disk without space."""
        full_mark(self.directory).touch()

    def make_room(self) -> None:
        """Let writes succeed again."""
        full_mark(self.directory).unlink(missing_ok=True)


def mounts_under(directories: Iterable[Path]) -> list[Mount]:
    """Return the disks that are mounted at or below these directories."""
    places = tuple(directories)
    return [each for each in _mounts() if any(each.point.is_relative_to(place) for place in places)]


def _mounts() -> list[Mount]:
    found: list[Mount] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if MODULE in command:
                directory, point = command[command.index(MODULE) + 1 :][:2]
                found.append(Mount(process, Path(directory), Path(point)))
    return found


def cuts(directory: Path) -> int:
    """Return how often the power of a disk was cut."""
    try:
        return int(_cuts_path(directory).read_text())
    except FileNotFoundError:
        return 0


def count_cut(directory: Path) -> None:
    """Note that the disk has forgotten once more."""
    write_atomically(_cuts_path(directory), str(cuts(directory) + 1), durable=False)


def full_mark(directory: Path) -> Path:
    """Return the file that says that the disk is full. It is none of the disk's own."""
    return directory / "full"


def _cuts_path(directory: Path) -> Path:
    return directory / "cuts"
