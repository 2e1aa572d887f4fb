"""The packages installed on a gateway. A package is installed whole or not at all, also under kills.

    downloads/<sha256>             archives on their way
    packages/<name>/<sha256>/      unpacked archives; the former one stays until the new one has started
    installed/<name>.json          the record of what is installed: replacing it is the moment of installing

Whatever no record names is left over from a killed attempt, and goes at the next start.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import shutil
import zipfile
from pathlib import Path
from typing import Any

import msgspec

from towpath.atomic_write import make_private_directory, sync_directory, sync_tree, write_atomically
from towpath.contracts.gateway import Code, InstallPackage, Manifest, Problem
from towpath.gateways.download import Progress, blocks_of, download
from towpath.gateways.ed25519 import verifies
from towpath.gateways.kinds.kind import kind_named
from towpath.gateways.manifest import MANIFEST, is_inside, read_manifest, with_properties
from towpath.gateways.refusal import Refusal

MOST_FILES = 1000
"""Files in a package."""


class Installed(msgspec.Struct, frozen=True):
    """Record of an installed package."""

    manifest: Manifest
    sha256: str
    properties: dict[str, Any]
    """Present values of all properties."""
    started: bool = True
    """False if the application was stopped on purpose: it stays so after a restart."""
    settled: bool = True
    """False until the application has started once: `undo` then goes back to `former`."""
    former: Installed | None = None
    """The package that was installed before. None: there was none, or it cannot come back any more."""


class PackageLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits for archives, and who may sign them."""

    public_key: str | None = None
    """Ed25519 public key, 32 bytes in base64. With one, unsigned packages are refused."""
    max_mb: int = 32
    """Size of an archive, packed and unpacked."""
    download_s: float = 300.0
    """Time for a download."""


class PackageShelf:
    """Packages in a gateway's directory. Methods may block. One change to a package at a time."""

    def __init__(self, directory: Path, limits: PackageLimits) -> None:
        self._limits = limits
        self._downloads = make_private_directory(directory / "downloads")
        self._packages = make_private_directory(directory / "packages")
        self._records = make_private_directory(directory / "installed")
        self._installed = self._read()
        self._sweep()

    def _read(self) -> dict[str, Installed]:
        return {
            path.stem: msgspec.json.decode(path.read_bytes(), type=Installed)
            for path in sorted(self._records.glob("[!.]*.json"))
        }

    def _sweep(self) -> None:
        """Delete what a killed attempt left. Archives on their way stay: their request comes again."""
        for scratch in self._records.glob(".*.tmp"):
            scratch.unlink()
        for package in self._packages.iterdir():
            self._tidy(package.name)

    def _tidy(self, name: str) -> None:
        """Delete the unpacked archives of an application that its record does not name."""
        record, place = self._installed.get(name), self._packages / name
        named = {each.sha256 for each in (record, record and record.former) if each}
        for directory in [*place.iterdir()] if place.exists() else []:
            if directory.name not in named:
                shutil.rmtree(directory)
        if record is None and place.exists():
            place.rmdir()

    @property
    def installed(self) -> dict[str, Installed]:
        """Records by name."""
        return dict(self._installed)

    def record(self, name: str) -> Installed:
        """Return a record. Raises `Refusal` (404)."""
        if name not in self._installed:
            raise Refusal.unknown("application", name, [*self._installed])
        return self._installed[name]

    def directory(self, name: str) -> Path:
        """Return the directory with a package's code."""
        return self._packages / name / self.record(name).sha256

    def is_installed(self, wanted: InstallPackage) -> bool:
        """True if exactly this archive is installed. Raises `Refusal` (409) for another of that version."""
        found = self._installed.get(wanted.name)
        if found is None:
            return False
        if found.sha256 != wanted.sha256 and found.manifest.version == wanted.version:
            problem = Problem(
                "this version is installed with another content", "sha256", wanted.sha256, found.sha256
            )
            raise Refusal(Code.CONFLICT, problem)
        return found.sha256 == wanted.sha256

    def fetch(self, wanted: InstallPackage, progress: Progress) -> Path:
        """Download, verify and unpack a package. Return its directory. Raises `Refusal`. Blocks long."""
        archive = self._downloads / wanted.sha256
        limit = self._limits.max_mb * 1024**2
        download(
            wanted.url,
            archive,
            sha256=wanted.sha256,
            most_bytes=limit,
            within_s=self._limits.download_s,
            progress=progress,
        )
        try:
            self._check_signature(archive, wanted.signature)
            scratch = self._packages / wanted.name / f"unpacking-{wanted.sha256}"
            target = scratch.with_name(wanted.sha256)
            for old in (scratch, target):
                shutil.rmtree(old, ignore_errors=True)
            _unpack(archive, scratch, limit)
            self._check_manifest(scratch, wanted)
            sync_tree(scratch)
            scratch.rename(target)
            sync_directory(target.parent)
        except BaseException:
            self._tidy(wanted.name)
            raise
        finally:
            archive.unlink(missing_ok=True)
        return target

    def install(self, wanted: InstallPackage) -> Installed:
        """Make a fetched package the installed one, until `settle` or `undo`.

        The former one's properties stay as far as they fit, unless the request replaces them.
        """
        manifest = read_manifest((self._packages / wanted.name / wanted.sha256 / MANIFEST).read_bytes())
        former = self._installed.get(wanted.name)
        try:
            stay = former is not None and not wanted.replace
            kept = with_properties(manifest, former.properties if former and stay else {}, {})
        except Refusal:  # Values of the former version that this one cannot use.
            kept = {}
        properties = with_properties(manifest, kept, wanted.properties)
        manifest = msgspec.structs.replace(manifest, name=wanted.name)
        before = former if former is None or former.settled else former.former
        record = Installed(manifest, wanted.sha256, properties, settled=False, former=before)
        return self.keep(wanted.name, record)

    def settle(self, name: str) -> Installed:
        """Note that an application has started: it does not go back any more. Return the record before."""
        record = self.record(name)
        if not record.settled:
            self.keep(name, msgspec.structs.replace(record, settled=True, former=None))
            self._tidy(name)
        return record

    def undo(self, name: str) -> Installed | None:
        """Go back to what was installed before. Return it; None if there was nothing: then call `clear`."""
        former = self.record(name).former
        if former is None:
            self.uninstall(name)
            return None
        self.keep(name, former)
        self._tidy(name)
        return former

    def changed(self, name: str, changes: dict[str, Any], *, replace: bool = False) -> Installed:
        """Return the record with other properties, to be kept. Raises `Refusal` with all that is wrong."""
        record = self.record(name)
        properties = with_properties(record.manifest, {} if replace else record.properties, changes)
        return msgspec.structs.replace(record, properties=properties)

    def set_started(self, name: str, started: bool) -> Installed:
        """Note that an application is to run, or not to."""
        return self.keep(name, msgspec.structs.replace(self.record(name), started=started))

    def uninstall(self, name: str) -> None:
        """Forget a package. Raises `Refusal` (404). Call `clear` when its application has ended."""
        self.record(name)
        (self._records / f"{name}.json").unlink()
        del self._installed[name]

    def clear(self, name: str) -> None:
        """Delete the files of a package that is not installed any more."""
        self._tidy(name)

    def keep(self, name: str, record: Installed) -> Installed:
        """Replace the record of a package."""
        write_atomically(self._records / f"{name}.json", msgspec.json.encode(record))
        self._installed[name] = record
        return record

    def _check_signature(self, archive: Path, signature: str | None) -> None:
        if self._limits.public_key is None:
            return
        try:
            given = base64.b64decode(signature or "", validate=True)
            key = base64.b64decode(self._limits.public_key, validate=True)
        except binascii.Error as error:
            raise Refusal.bad(f"not base64: {error}", field="signature", value=signature) from error
        if not verifies(key, given, blocks_of(archive)):
            raise Refusal.bad(
                "the archive is not signed with this gateway's key",
                field="signature",
                value=signature,
                allowed=f"a signature that {self._limits.public_key} verifies",
            )

    def _check_manifest(self, directory: Path, wanted: InstallPackage) -> None:
        try:
            content = (directory / MANIFEST).read_bytes()
        except OSError as error:
            raise Refusal.bad(f"the archive has no {MANIFEST}", field="url", value=wanted.url) from error
        manifest = read_manifest(content)
        if wanted.version not in (None, manifest.version):
            problem = Problem("the manifest says otherwise", "version", wanted.version, manifest.version)
            raise Refusal(Code.BAD_REQUEST, problem)
        with_properties(manifest, {}, wanted.properties)
        kind_named(manifest.kind).check_device(manifest, directory)


def _unpack(archive: Path, directory: Path, most_bytes: int) -> None:
    """Unpack an archive whose names all stay below `directory`. Raises `Refusal` (400)."""
    try:
        with zipfile.ZipFile(archive) as packed:
            entries = [entry for entry in packed.infolist() if not entry.is_dir()]
            if outside := [entry.filename for entry in entries if not is_inside(entry.filename)]:
                raise Refusal.bad(
                    "a file would be unpacked outside of the package", field="url", value=outside[0]
                )
            if len(entries) > MOST_FILES or sum(entry.file_size for entry in entries) > most_bytes:
                allowed = f"{most_bytes} bytes in {MOST_FILES} files"
                raise Refusal.bad("the archive is too large when unpacked", field="url", allowed=allowed)
            for entry in entries:
                path = directory / entry.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(entry) as source, path.open("xb") as target:  # Plain files, never links.
                    shutil.copyfileobj(source, target)
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        FileExistsError,
        NotADirectoryError,
    ) as error:
        with contextlib.suppress(OSError):
            shutil.rmtree(directory)
        raise Refusal.bad(f"the archive cannot be unpacked: {error}", field="url") from error
