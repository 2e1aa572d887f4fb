"""Import user code while its plan is compiled, and let two versions of one package run at once.

The engine's own process can import a package only while a plan of its job is compiled, because the next job
may bring another version. The functions in a plan hold the modules that they came with.

Spark's Python workers outlive plans, and import the packages that a plan names. Spark tells workers apart by
their environment. Code gets workers of its own if it brings a package that another artefact has brought, or
that is installed anyway. All other code shares the engine's workers, which are warm.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import importlib.machinery
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from towpath.artefacts.archive import digest_of, pack
from towpath.artefacts.entry_check import ALLOWED, FIELD
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.operators.kind import UserCode

WORKERS_OF = "TOWPATH_ARTEFACT"
"""Environment variable of Python workers that serve only one artefact."""

_OURS = frozenset({"pyspark", "py4j", "towpath"}) | sys.stdlib_module_names
"""Modules that no artefact may replace in the engine's process."""

_brought_by: dict[str, str] = {}
"""Package → the artefact that brought it to the shared workers."""


@contextlib.contextmanager
def loaded_entry(spark: SparkContext, operator: UserCode) -> Iterator[Callable[..., Any]]:
    """Load the function of `operator.entry`, to be called inside the block. Raises `TowpathError`.

    `operator.artefact` is a zip, wheel or directory of this machine, or null for code that the environment
    has. Enter one block at a time: it changes what the process can import.
    """
    if operator.artefact is None:
        yield _function(operator)
        return
    archive = _as_zip(Path(operator.artefact))
    packages = _packages(archive)
    with _in_workers(spark, archive, packages), _importable(archive, packages - _OURS):
        yield _function(operator)


def _function(operator: UserCode) -> Callable[..., Any]:
    module_name, _, function_name = operator.entry.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # User code may raise anything while it is imported.
        raise no_entry(f"does not import: {type(error).__name__}: {error}", operator) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise no_entry(f"module {module_name!r} has no function {function_name!r}", operator)
    return function


@contextlib.contextmanager
def _importable(archive: Path, packages: frozenset[str]) -> Iterator[None]:
    """Import these packages from the archive inside the block, whatever had their names before."""
    aside = {name: module for name, module in sys.modules.items() if _package(name) in packages}
    for name in aside:
        del sys.modules[name]
    sys.path.insert(0, str(archive))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(archive))
        sys.path_importer_cache.pop(str(archive), None)
        for name in [name for name in sys.modules if _package(name) in packages]:
            del sys.modules[name]
        sys.modules.update(aside)


@contextlib.contextmanager
def _in_workers(spark: SparkContext, archive: Path, packages: frozenset[str]) -> Iterator[None]:
    """Let functions that are made inside the block find this archive, and no other, in their workers."""
    spark.addFile(str(archive))
    own = {} if _may_share(archive.stem, packages) else {WORKERS_OF: archive.stem}
    includes, environment = spark._python_includes, spark.environment
    spark._python_includes, spark.environment = [archive.name], {**environment, **own}
    try:
        yield
    finally:
        spark._python_includes, spark.environment = includes, environment


def _may_share(digest: str, packages: frozenset[str]) -> bool:
    """Return true if the shared workers can serve the artefact; they then keep its packages."""
    if all(_brought_by.get(package) == digest for package in packages):
        return True
    find = importlib.machinery.PathFinder.find_spec
    if any(name in _brought_by or name in _OURS or find(name) is not None for name in packages):
        return False
    _brought_by.update(dict.fromkeys(packages, digest))
    return True


def _packages(archive: Path) -> frozenset[str]:
    """The names of the modules and packages at the top of an archive."""
    with zipfile.ZipFile(archive) as content:
        modules = [name for name in content.namelist() if name.endswith(".py")]
    return frozenset(name.partition("/")[0].removesuffix(".py") for name in modules)


def _package(module_name: str) -> str:
    return module_name.partition(".")[0]


def _as_zip(artefact: Path) -> Path:
    """The artefact as a zip with its digest as name. The agent fetches such zips; others are packed here."""
    if not artefact.exists():
        raise TowpathError(
            ErrorCode.INVALID,
            "there is no such file or directory",
            field="operator.artefact",
            value=str(artefact),
            allowed="a wheel, a zip or a directory",
        )
    if artefact.suffix == ".zip" and len(artefact.stem) == len(digest_of(b"")):
        return artefact
    content = pack(artefact.resolve(), artefact.resolve())
    archive = _archives() / f"{digest_of(content)}.zip"
    if not archive.exists():
        part = archive.with_suffix(".part")
        part.write_bytes(content)
        part.replace(archive)
    return archive


@functools.cache
def _archives() -> Path:
    """A directory of this process alone, because code must not run from where other users can write."""
    folder = tempfile.mkdtemp(prefix="towpath-artefacts-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def no_entry(message: str, operator: UserCode) -> TowpathError:
    """The error for an entry that cannot be used. It says what an entry looks like."""
    return TowpathError(ErrorCode.INVALID, message, field=FIELD, value=operator.entry, allowed=ALLOWED)
