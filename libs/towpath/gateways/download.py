"""Download a package's archive with a limit of size and time, and go on where a former attempt broke off."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from towpath.contracts.gateway import Code, Problem
from towpath.gateways.refusal import Refusal

SCHEMES = ("http", "https", "file")
_BLOCK = 64 * 1024
_QUIET_S = 20.0
"""Time without a byte after which a download is given up."""

Progress = Callable[[int], None]
"""Is told the percentage that has come."""


def download(
    url: str, target: Path, *, sha256: str, most_bytes: int, within_s: float, progress: Progress
) -> None:
    """Put the content of a URL at `target`. Blocks. Raises `Refusal`.

    The file has the wanted digest when this returns. What came of an attempt that broke off stays there, and
    the next one asks for the rest only.
    """
    scheme = urlsplit(url).scheme
    if scheme not in SCHEMES:
        raise Refusal.bad("no such kind of address", field="url", value=url, allowed=[*SCHEMES])
    if not target.exists() or digest_of(target) != sha256:
        try:
            _fetch(url, target, most_bytes, time.monotonic() + within_s, progress)
        except (OSError, ValueError) as error:
            raise Refusal(Code.FAILED, Problem(f"cannot be downloaded: {error}", "url", url)) from error
    if (found := digest_of(target)) != sha256:
        target.unlink()
        raise Refusal.bad("the archive has another digest", field="sha256", value=found, allowed=sha256)


def _fetch(url: str, target: Path, most_bytes: int, deadline: float, progress: Progress) -> None:
    import urllib.request  # Here, as a gateway seldom installs anything.

    have = target.stat().st_size if target.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=_QUIET_S)
    except urllib.request.HTTPError as error:  # type: ignore[attr-defined]
        if error.code != 416:  # Range not satisfiable: what is there is not a beginning of the archive.
            raise
        target.unlink()
        return _fetch(url, target, most_bytes, deadline, progress)
    with response:
        goes_on = have > 0 and getattr(response, "status", None) == 206
        size = (have if goes_on else 0) + int(response.headers.get("Content-Length") or 0)
        if size > most_bytes:
            raise _too_large(url, most_bytes)
        with target.open("ab" if goes_on else "wb") as file:
            while block := response.read(_BLOCK):
                file.write(block)
                if file.tell() > most_bytes:
                    raise _too_large(url, most_bytes)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not complete in time, {file.tell()} bytes came")
                progress(min(99, 100 * file.tell() // size) if size else 50)


def _too_large(url: str, most_bytes: int) -> Refusal:
    return Refusal.bad("the archive is too large", field="url", value=url, allowed=f"{most_bytes} bytes")


def digest_of(path: Path) -> str:
    """Return a file's SHA-256 as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for block in blocks_of(path):
        digest.update(block)
    return digest.hexdigest()


def blocks_of(path: Path) -> Iterator[bytes]:
    """Yield a file in pieces."""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
