"""Replace a file whole or not at all; keep it to its owner; see that it was replaced."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write_atomically(
    path: Path, content: str | bytes, *, mode: int | None = None, durable: bool = True
) -> None:
    """Put `content` at `path`: a reader finds the old content or the new one, also after a crash.

    A `durable` file is on the disk when this returns. `mode` holds from the first moment on; without it the
    process' usual one is taken. The file is never changed in place: other names of the old one keep it.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        _write(scratch, content.encode() if isinstance(content, str) else content, mode, durable=durable)
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def write_private_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Put `text` at `path` with this mode, on the disk when this returns. See `write_atomically`."""
    write_atomically(path, text, mode=mode)


def content_state(path: Path) -> tuple[int, ...] | None:
    """Return what changes with the content of a file that is only replaced. None if it cannot be seen."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def make_private_directory(path: Path) -> Path:
    """Create a directory for the owner alone (mode 0700), with its parents. Return it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)
    return path


def _write(scratch: Path, content: bytes, mode: int | None, *, durable: bool) -> None:
    scratch.unlink(missing_ok=True)  # Of a killed process that had this number.
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if mode is not None:
            os.fchmod(descriptor, mode)
        if durable:
            file.flush()
            os.fsync(descriptor)


def sync_tree(directory: Path) -> None:
    """Return when a directory is on the disk under its name, with all that is in it."""
    for path in [*directory.rglob("*"), directory, directory.parent]:
        sync_directory(path)


def sync_directory(directory: Path) -> None:
    """Return when the names of the directory's files are on the disk. For a file: its content."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
