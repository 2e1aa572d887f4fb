"""A directory whose files are lost with the power, unless they were synced.

The model is ext4 with its usual options, at its harshest:

- The content of a file is on the disk when `fsync` of the file returns, and what was written later is not.
- Any `fsync` makes all changes of names so far durable, in their order, because they share one journal. So a
  file that was made and renamed without `fsync` is there after the cut, and empty.
- Nothing else reaches the disk. A real one also keeps some of what was not synced.

LazyFS (Ramos and others, VLDB 2024) does the same in C++.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath

DIRECTORY = 0
"""In place of a file's number."""


class Disk:
    """Files as processes see them (`now`), and as the disk has them (`kept`). Thread-safe."""

    def __init__(self, directory: Path) -> None:
        """Take what is in `directory`/now as the content of the disk."""
        self.now = directory / "now"
        self._kept = directory / "kept"
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._names: dict[str, int] = {}
        """Path → number of the file."""
        self._changed: dict[int, list[tuple[int, int]]] = {}
        """File → ranges that were written since its last sync."""
        self._pending: list[Callable[[dict[str, int]], object]] = []
        """Changes of names since the last sync."""
        self.now.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._kept, ignore_errors=True)
        self._kept.mkdir()
        self._load()
        self._kept_names = dict(self._names)

    def _load(self) -> None:
        numbers: dict[int, int] = {}
        for path in sorted(self.now.rglob("*")):
            name = str(path.relative_to(self.now))
            if path.is_dir():
                self._names[name] = DIRECTORY
                continue
            inode = path.stat().st_ino
            if inode not in numbers:
                numbers[inode] = next(self._numbers)
                shutil.copyfile(path, self._kept / str(numbers[inode]))
            self._names[name] = numbers[inode]

    def number(self, name: str) -> int:
        """Return the number of a file."""
        with self._lock:
            return self._names[name]

    def add(self, name: str, *, is_directory: bool = False) -> int:
        """Note a new file or directory. Return its number."""
        number = DIRECTORY if is_directory else next(self._numbers)
        self._rename(lambda names: names.__setitem__(name, number))
        return number

    def link(self, name: str, other: str) -> None:
        """Note another name of a file."""
        number = self.number(name)
        self._rename(lambda names: names.__setitem__(other, number))

    def remove(self, name: str) -> None:
        """Note that a name is gone."""
        self._rename(lambda names: names.pop(name, None))

    def move(self, old: str, new: str) -> None:
        """Note that a file, or a directory with all that is in it, has another name."""

        def change(names: dict[str, int]) -> None:
            inside = PurePosixPath(old)
            for name in [n for n in names if n == old or inside in PurePosixPath(n).parents]:
                names[new + name.removeprefix(old)] = names.pop(name)

        self._rename(change)

    def _rename(self, change: Callable[[dict[str, int]], object]) -> None:
        with self._lock:
            change(self._names)
            self._pending.append(change)

    def write(self, number: int, offset: int, length: int) -> None:
        """Note that a range of a file has another content, or is cut off."""
        with self._lock:
            self._changed.setdefault(number, []).append((offset, length))

    def sync(self, number: int, descriptor: int) -> None:
        """Put a file, open as `descriptor`, on the disk, and all changes of names."""
        with self._lock:
            ranges = self._changed.pop(number, [])
            with os.fdopen(os.open(self._kept / str(number), os.O_WRONLY | os.O_CREAT), "wb") as kept:
                for offset, length in ranges:
                    os.pwrite(kept.fileno(), os.pread(descriptor, length, offset), offset)
                os.ftruncate(kept.fileno(), os.fstat(descriptor).st_size)
            self.sync_names()

    def sync_names(self) -> None:
        """Put all changes of names on the disk."""
        with self._lock:
            for change in self._pending:
                change(self._kept_names)
            self._pending.clear()

    def lose_power(self) -> None:
        """Leave in `now` what the disk has."""
        with self._lock:
            left = self.now.with_name("left")
            shutil.rmtree(left, ignore_errors=True)
            left.mkdir()
            made: dict[int, Path] = {}
            for name, number in sorted(self._kept_names.items()):
                path = left / name
                if number == DIRECTORY:
                    path.mkdir(parents=True, exist_ok=True)
                elif number in made:
                    os.link(made[number], path)
                else:
                    made[number] = path
                    content = self._kept / str(number)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    if content.exists():
                        shutil.copyfile(content, path)
                    else:
                        path.touch()
                    path.chmod(_mode(self.now / name))
            shutil.rmtree(self.now)
            left.rename(self.now)


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777 if path.exists() else 0o600
