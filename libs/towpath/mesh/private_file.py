"""Files that only their owner may read, replaced whole or not at all."""

from __future__ import annotations

from pathlib import Path

from towpath.atomic_write import write_atomically


def make_private_directory(path: Path) -> Path:
    """Create a directory for the owner alone (mode 0700), with its parents. Returns it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)
    return path


def write_private_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Put `text` at `path` with this mode, on the disk when this returns.

    Whoever reads meanwhile, or after a crash at any moment, finds the old text or the new one.
    """
    write_atomically(path, text, mode=mode)
