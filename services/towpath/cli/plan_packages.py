"""Packages in a catalogue that lie on this machine: pack them, so that devices here can fetch them."""

from __future__ import annotations

from pathlib import Path

from towpath.atomic_write import make_private_directory
from towpath.contracts.device_catalogue import DeviceCatalogue
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.plan import Package
from towpath.gateways.download import digest_of
from towpath.gateways.packing import pack
from towpath.gateways.refusal import Refusal
from towpath.mesh.home import Home


def with_local_packages(catalogue: DeviceCatalogue, beside: Path, home: Home) -> DeviceCatalogue:
    """Return the catalogue with address and digest of packages whose `url` is a path.

    A path is relative to the catalogue. A directory with a manifest is packed into the mesh's own directory.
    Raises `TowpathError` (invalid).
    """
    packages = [
        _local(package, f"packages[{number}].url", beside, home)
        for number, package in enumerate(catalogue.packages)
    ]
    return catalogue.model_copy(update={"packages": packages})


def _local(package: Package, field: str, beside: Path, home: Home) -> Package:
    if package.url is None or ":" in package.url:
        return package
    path = (beside / package.url).resolve()
    try:
        version = package.version
        if path.is_dir():
            manifest, path, digest = pack(path, make_private_directory(home.root / "packages"))
            version = manifest.version
        else:
            digest = digest_of(path)
    except (OSError, Refusal) as error:
        raise TowpathError(
            ErrorCode.INVALID,
            f"no package: {error}",
            field=field,
            value=package.url,
            allowed="a URL, a zip, or a directory with a manifest.json",
        ) from error
    if package.sha256 not in (None, digest):
        raise TowpathError(
            ErrorCode.INVALID,
            "the archive has another digest than the catalogue says",
            field=field,
            value=digest,
            allowed=package.sha256,
        )
    return package.model_copy(update={"url": path.as_uri(), "sha256": digest, "version": version})
