"""Mount a disk: `python -m towpath.lab.power <directory> <mount point>`.

SIGTERM unmounts it, and keeps everything. SIGUSR1 cuts the power: what was not synced is gone when it is
mounted again. End the processes that use it first, because a mount in use stays. `towpath.lab.power.mount`
sends the signal, and fills the disk. Needs Debian's `fuse3` and `libfuse2`, and the package `mfusepy`.
"""

# The methods are calls of the file system, by their usual names, and so are those of `os` that they pass to.
# ruff: noqa: D102, PTH101, PTH102, PTH104, PTH106, PTH108, PTH116, PTH208

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import mfusepy

from towpath.lab.power.disk import Disk
from towpath.lab.power.mount import count_cut, full_mark

UNMOUNT_EVERY_S = 0.1
SYNCHRONOUS = os.O_SYNC | os.O_DSYNC


class FileSystem(mfusepy.Operations):
    """Passes calls to the files of a disk, and notes them there."""

    use_ns = True

    def __init__(self, disk: Disk, full: Path) -> None:
        """There is no room while `full` exists."""
        self._disk = disk
        self._full = full
        self._open: dict[int, tuple[int, bool]] = {}
        """Descriptor → number of its file, and if each write is synchronous."""

    def _path(self, path: str) -> Path:
        return self._disk.now / path.lstrip("/")

    def _need_room(self) -> None:
        if self._full.exists():
            raise mfusepy.FuseOSError(errno.ENOSPC)

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        try:
            found = os.lstat(self._path(path)) if fh is None else os.fstat(fh)
        except OSError as error:
            raise mfusepy.FuseOSError(error.errno or errno.EIO) from error
        names = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_ino")
        times = {f"st_{kind}time": getattr(found, f"st_{kind}time_ns") for kind in "amc"}
        return {name: getattr(found, name) for name in names} | times

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._path(path))]

    def statfs(self, path: str) -> dict[str, Any]:
        found = os.statvfs(self._path(path))
        names = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_ffree", "f_files", "f_frsize", "f_namemax")
        no_room = {"f_bavail": 0, "f_bfree": 0} if self._full.exists() else {}
        return {name: getattr(found, name) for name in names} | no_room

    def access(self, path: str, amode: int) -> int:
        if not os.access(self._path(path), amode):
            raise mfusepy.FuseOSError(errno.EACCES)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        self._need_room()
        os.mkdir(self._path(path), mode)
        self._disk.add(path.lstrip("/"), is_directory=True)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self._path(path))
        self._disk.remove(path.lstrip("/"))
        return 0

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        self._need_room()
        descriptor = os.open(self._path(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)
        self._open[descriptor] = self._disk.add(path.lstrip("/")), False
        return descriptor

    def open(self, path: str, flags: int) -> int:
        # Always readable, because a sync copies what was written. The kernel gives the offset of each write.
        passed = flags & ~(os.O_ACCMODE | os.O_APPEND | os.O_EXCL | os.O_CREAT)
        passed |= os.O_RDONLY if flags & os.O_ACCMODE == os.O_RDONLY else os.O_RDWR
        number = self._disk.number(path.lstrip("/"))
        size = self._path(path).stat().st_size
        descriptor = os.open(self._path(path), passed)
        self._open[descriptor] = number, bool(flags & SYNCHRONOUS)
        if flags & os.O_TRUNC:
            self._disk.write(number, 0, size)
        return descriptor

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        self._need_room()
        written = os.pwrite(fh, data, offset)
        number, is_synchronous = self._open[fh]
        self._disk.write(number, offset, written)
        if is_synchronous:
            self._disk.sync(number, fh)
        return written

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        target = self._path(path) if fh is None else fh
        before = os.stat(target).st_size
        os.truncate(target, length)
        number = self._disk.number(path.lstrip("/")) if fh is None else self._open[fh][0]
        self._disk.write(number, min(before, length), abs(before - length))
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        self._disk.sync(self._open[fh][0], fh)
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        self._disk.sync_names()
        return 0

    def flush(self, path: str, fh: int) -> int:
        return 0

    def release(self, path: str, fh: int) -> int:
        self._open.pop(fh, None)
        os.close(fh)
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(self._path(path))
        self._disk.remove(path.lstrip("/"))
        return 0

    def rename(self, old: str, new: str) -> int:
        os.rename(self._path(old), self._path(new))
        self._disk.move(old.lstrip("/"), new.lstrip("/"))
        return 0

    def link(self, target: str, source: str) -> int:
        os.link(self._path(source), self._path(target))
        self._disk.link(source.lstrip("/"), target.lstrip("/"))
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._path(path), mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        os.chown(self._path(path), uid, gid)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(self._path(path), ns=times or (time.time_ns(), time.time_ns()))
        return 0


def _unmount(mount: Path) -> None:
    """Unmount, as soon as the kernel has closed the files of processes that were killed just now."""
    while subprocess.run(["fusermount3", "-u", str(mount)]).returncode != 0:
        time.sleep(UNMOUNT_EVERY_S)


def main(arguments: list[str]) -> None:
    """Mount a disk until a signal comes."""
    directory, mount = (Path(argument) for argument in arguments)
    disk, is_cut = Disk(directory), threading.Event()
    unmounting = threading.Thread(target=_unmount, args=(mount,), name="unmount")

    def unmount(number: int, _: object) -> None:
        if number == signal.SIGUSR1:
            is_cut.set()
        if unmounting.ident is None:
            unmounting.start()

    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, unmount)
    options = {"foreground": True, "big_writes": True, "default_permissions": True}
    system = FileSystem(disk, full_mark(directory))
    thread = threading.Thread(target=mfusepy.FUSE, args=(system, str(mount)), kwargs=options)
    thread.start()
    thread.join()
    if is_cut.is_set():
        unmounting.join()
        disk.lose_power()
        count_cut(directory)
        # Nothing of what the process knew of the disk may be left.
        os.execv(sys.executable, sys.orig_argv)


if __name__ == "__main__":
    main(sys.argv[1:])
