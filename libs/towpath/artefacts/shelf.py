"""The artefacts on a site's own disk. With them, a site that is cut off can go on.

<digest>.zip          the artefact, read-only
<digest>.<entry>      marks that this entry was tried and can be called
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from towpath.artefacts.archive import digest_of
from towpath.atomic_write import write_atomically

_DIGEST_LENGTH = 64


class Shelf:
    """Files of one site. An artefact is either complete or absent. Methods block briefly."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def find(self, digest: str) -> Path | None:
        """Return the artefact if it is here and undamaged. A damaged one is deleted."""
        path = self._path(digest)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        if digest_of(content) != digest:
            path.unlink(missing_ok=True)
            return None
        os.utime(path)
        return path

    def keep(self, digest: str, content: bytes) -> Path:
        """Store an artefact durably."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(digest)
        write_atomically(path, content, mode=0o400)
        return path

    def note_callable(self, digest: str, entry: str) -> None:
        """Record that an entry was tried and can be called."""
        self._mark(digest, entry).touch()

    def is_callable(self, digest: str, entry: str) -> bool:
        """True if an entry was tried here before and could be called."""
        return self._mark(digest, entry).exists()

    def discard(self, keep: set[str], unused_s: float) -> list[str]:
        """Delete artefacts that are not in `keep` and were not looked for within `unused_s` seconds.

        Returns their digests.
        """
        gone: list[str] = []
        for path in self.directory.glob("*.zip"):
            digest = path.stem
            if digest not in keep and time.time() - path.stat().st_mtime > unused_s:
                for file in self.directory.glob(f"*{digest}.*"):
                    file.unlink(missing_ok=True)
                gone.append(digest)
        return gone

    def _path(self, digest: str) -> Path:
        assert len(digest) == _DIGEST_LENGTH, "the digest becomes a file name"
        return self.directory / f"{digest}.zip"

    def _mark(self, digest: str, entry: str) -> Path:
        name = hashlib.sha256(entry.encode()).hexdigest()[:16]
        return self.directory / f"{digest}.{name}"
