"""Pack a directory with a manifest into a package: a zip whose bytes depend on its content alone."""

from __future__ import annotations

import zipfile
from pathlib import Path

from towpath.contracts.gateway import Manifest
from towpath.gateways.download import digest_of
from towpath.gateways.manifest import MANIFEST, read_manifest

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can store. Every file has it."""

_READABLE = 0o100644 << 16


def pack(directory: Path, into: Path) -> tuple[Manifest, Path, str]:
    """Write a package into a directory. Return its manifest, path and SHA-256.

    Raises `Refusal` if the manifest is wrong, and `OSError`.
    """
    manifest = read_manifest((directory / MANIFEST).read_bytes())
    target = into / f"{manifest.name}-{manifest.version}.zip"
    files = sorted(path for path in directory.rglob("*") if path.is_file() and _is_kept(path, directory))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path in files:
            entry = zipfile.ZipInfo(path.relative_to(directory).as_posix(), _EPOCH)
            entry.create_system, entry.external_attr = 3, _READABLE
            archive.writestr(entry, path.read_bytes())
    return manifest, target, digest_of(target)


def _is_kept(path: Path, directory: Path) -> bool:
    parts = path.relative_to(directory).parts
    return not any(part.startswith(".") or part == "__pycache__" for part in parts)
