"""Pack user code into one zip whose bytes depend on its content alone, and name it by its digest."""

from __future__ import annotations

import hashlib
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from towpath.artefacts.root import FIELD, outside
from towpath.contracts.errors import ErrorCode, TowpathError

MAX_BYTES = 64 * 1024**2
"""Greatest size of an artefact, packed and unpacked: more than any code, far less than a site's disk."""

MAX_FILES = 10_000

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can store. Every file has it."""

_READABLE = 0o100644 << 16
"""A regular file that all may read, as a zip stores Unix modes."""


_UNREADABLE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, lzma.LZMAError, EOFError)
"""Errors that a damaged zip raises."""


def digest_of(content: bytes) -> str:
    """Return the name of an artefact: its SHA-256, 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def pack(path: Path, root: Path) -> bytes:
    """Return the artefact at `path`, a real path inside `root`, as one zip.

    A wheel stays as it is. A directory or zip becomes a zip that is the same for the same files, in any order
    and with any times. Compiled Python and hidden files are left out. Raises `TowpathError` for anything
    else, for links that lead out of `root`, for unreadable files, and for too much content.
    """
    try:
        if path.is_dir():
            return _zipped(_of_directory(path, root.resolve(), ()), path)
        if path.suffix == ".whl":
            return _whole(path)
        if path.suffix == ".zip":
            return _repacked(path)
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or error}") from error
    except UnicodeError as error:
        raise _refused(path, f"has a file whose name is no text: {error}") from error
    except _UNREADABLE as error:
        raise _refused(path, f"is not a readable zip: {error}") from error
    raise _refused(path, "is neither a wheel nor a zip nor a directory")


def _whole(path: Path) -> bytes:
    if path.stat().st_size > MAX_BYTES:
        raise _too_large(path)
    content = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
            raise _too_large(path)
        if (damaged := archive.testzip()) is not None:
            raise _refused(path, f"is damaged: {damaged}")
        _check_any_code(archive.namelist(), path)
    return content


def _repacked(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if sum(entry.file_size for entry in entries) > MAX_BYTES:
            raise _too_large(path)
        names = [PurePosixPath(entry.filename) for entry in entries]
        strays = [name for name in names if name.is_absolute() or ".." in name.parts]
        if strays:
            raise _refused(path, f"holds {str(strays[0])!r}, which would be unpacked outside of it")
        kept = ((str(n), e) for n, e in zip(names, entries, strict=True) if all(map(_is_kept, n.parts)))
        return _zipped(((name, archive.read(entry)) for name, entry in kept), path)


def _of_directory(directory: Path, root: Path, above: tuple[Path, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file. Links are followed while they stay inside the root."""
    for entry in directory.iterdir():
        if not _is_kept(entry.name):
            continue
        real = entry.resolve()
        if not real.is_relative_to(root):
            raise outside(root, str(entry))
        if real.is_dir():
            if real in above:
                raise _refused(entry, "is a link to a directory that contains it")
            for name, content in _of_directory(real, root, (*above, directory)):
                yield f"{entry.name}/{name}", content
        elif not real.is_file():
            raise _refused(entry, "is neither a file nor a directory")
        elif real.stat().st_size > MAX_BYTES:
            raise _too_large(entry)
        else:
            yield entry.name, real.read_bytes()


def _zipped(files: Iterable[tuple[str, bytes]], path: Path) -> bytes:
    """Return an uncompressed zip, because a compressor's version would change the bytes."""
    contents: dict[str, bytes] = {}
    size = 0
    for name, content in files:
        contents[name] = content
        size += len(content)
        if size > MAX_BYTES or len(contents) > MAX_FILES:
            raise _too_large(path)
    _check_any_code(contents, path)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, _READABLE
            archive.writestr(entry, contents[name])
    return buffer.getvalue()


def _is_kept(name: str) -> bool:
    return name != "__pycache__" and not name.startswith(".") and not name.endswith((".pyc", ".pyo"))


def _check_any_code(names: Iterable[str], path: Path) -> None:
    if not any(name.endswith(".py") for name in names):
        raise _refused(path, "contains no Python module")


def _too_large(path: Path) -> TowpathError:
    return _refused(
        path, "is too large", allowed=f"at most {MAX_BYTES // 1024**2} MiB in {MAX_FILES:,} files"
    )


def _refused(
    path: Path, what: str, allowed: str = "a wheel, a zip or a directory with Python code"
) -> TowpathError:
    return TowpathError(
        ErrorCode.INVALID, f"{path.name} {what}", field=FIELD, value=str(path), allowed=allowed
    )
