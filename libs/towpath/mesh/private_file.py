"""Files that only their owner may read, replaced whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def make_private_directory(path: Path) -> Path:
    """Create a directory for the owner alone (mode 0700), with its parents. Returns it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)
    return path


def write_private_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Put `text` at `path` with this mode, on the disk when this returns.

    Whoever reads meanwhile, or after a crash at any moment, finds the old text or the new one.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        os.fchmod(descriptor, mode)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
