"""The announcement of a transfer, to which every chunk is held.

The target writes what another site sends. So a path that leads out of the checkpoint, a chunk of a file that
was not announced, and a byte beyond its announced size are refused before anything is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from towpath.contracts.errors import ErrorCode, TowpathError


@dataclass(frozen=True)
class Manifest:
    """The files of a complete checkpoint, and the sizes of those that travel."""

    files: Mapping[str, str]
    """Relative path → digest."""
    sizes: Mapping[str, int]
    """Relative path → bytes, for each file that is sent."""

    def to_json(self) -> str:
        """Return what `manifest_of` reads."""
        return json.dumps({"files": self.files, "sizes": self.sizes})

    def check_room(self, free: int, staged: Mapping[str, str]) -> None:
        """Raise `TowpathError` (not allowed) when the announced files need more than `free` bytes.

        `staged` are the files that are there already, with their digests.
        """
        needed = sum(size for path, size in self.sizes.items() if staged.get(path) != self.files[path])
        if needed > free:
            raise _refusal("the state does not fit on the disk", "sizes", needed, f"at most {free} bytes")

    def check_chunk(self, path: str, offset: int, length: int) -> None:
        """Raise `TowpathError` (not allowed) unless these bytes lie within an announced file."""
        if path not in self.sizes:
            raise _refusal("a chunk of a file that was not announced", "path", path, "an announced path")
        if not 0 <= offset <= offset + length <= self.sizes[path]:
            allowed = f"bytes 0 to {self.sizes[path]} of {path}"
            raise _refusal("a chunk beyond its file", "offset", f"{offset} + {length}", allowed)


def manifest_of(announced: str) -> Manifest:
    """Return the manifest in a `begin`. Raises `TowpathError` (not allowed) if it is no checkpoint's."""
    try:
        parsed = json.loads(announced)
        files, sizes = dict(parsed["files"]), dict(parsed["sizes"])
        folders = {str(parent) for path in files for parent in PurePosixPath(path).parents}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _refusal("an unreadable manifest", "manifest", announced[:100], "files and sizes") from error
    for path, digest in files.items():
        if not _is_inside(path) or path in folders or not isinstance(digest, str):
            allowed = "a relative path without .., of one file"
            raise _refusal("a path that no checkpoint has", "files", path, allowed)
    for path, size in sizes.items():
        if path not in files or not isinstance(size, int) or size < 0:
            raise _refusal("a size of no announced file", "sizes", path, "announced paths, sizes from 0")
    return Manifest(files, sizes)


def _is_inside(path: str) -> bool:
    """Tell if a path is in its normal form and leads below the directory where it begins."""
    pure = PurePosixPath(path)
    return (
        "\0" not in path
        and path == str(pure)
        and not pure.is_absolute()
        and bool(pure.parts)
        and ".." not in pure.parts
    )


def _refusal(what: str, field: str, value: Any, allowed: str) -> TowpathError:
    return TowpathError(ErrorCode.NOT_ALLOWED, what, field=field, value=value, allowed=allowed)
