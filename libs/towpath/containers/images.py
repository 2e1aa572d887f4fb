"""Images at a daemon: look for one, and load or pull it. Everything here blocks."""

from __future__ import annotations

from pathlib import Path

from towpath.containers.daemon import daemon
from towpath.contracts.errors import ErrorCode, TowpathError

FETCH_S = 300.0
"""Longest silence of a daemon that loads an archive or pulls an image."""


def is_present(image: str, host: str | None = None) -> bool:
    """True if a container can be made of the image at once. Raises `DaemonError`."""
    from docker.errors import ImageNotFound

    with daemon(host) as docker:
        try:
            docker.images.get(image)
        except ImageNotFound:
            return False
        return True


def ensure(image: str, archive: str | None = None, host: str | None = None) -> None:
    """Load a missing image from its archive, or pull it from its registry. Do nothing if it is there.

    Raises `DaemonError`. Raises `TowpathError` (invalid) when the archive cannot be read or contains other
    images, or no registry has the image.
    """
    if is_present(image, host):
        return
    if archive is None:
        _pull(image, host)
    else:
        _load(image, Path(archive), host)


def _load(image: str, archive: Path, host: str | None) -> None:
    try:
        with archive.open("rb") as content, daemon(host, FETCH_S) as docker:
            loaded = docker.images.load(content)  # type: ignore[arg-type]  # Read piece by piece.
    except OSError as error:
        raise TowpathError(
            ErrorCode.INVALID,
            f"the image {image} is missing, and its archive cannot be read: {error.strerror or error}",
            field="container.image_archive",
            value=str(archive),
            allowed="a file made by `docker save`",
        ) from error
    if not is_present(image, host):
        raise TowpathError(
            ErrorCode.INVALID,
            f"{archive} contains another image",
            field="container.image",
            value=image,
            allowed=sorted(tag for each in loaded for tag in each.tags),
        )


def _pull(image: str, host: str | None) -> None:
    from towpath.containers.errors import Missing, Refused

    try:
        with daemon(host, FETCH_S) as docker:
            docker.images.pull(image)
    except (Missing, Refused) as error:
        raise TowpathError(
            ErrorCode.INVALID,
            f"the image is missing, and no registry gives it ({error.detail.message})",
            field="container.image",
            value=image,
            allowed="an image that the daemon or a registry has, or one in `container.image_archive`",
        ) from error
