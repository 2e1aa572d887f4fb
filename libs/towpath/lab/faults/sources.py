"""Finds the source of modules and what it defines: nothing is imported for that, and nothing run."""

from __future__ import annotations

import ast
import pkgutil
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path, PurePosixPath

MAX_SOURCE_BYTES = 4 * 1024**2
"""Of one module."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """What a module's source defines."""

    name: str
    is_package: bool
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name → module and name there."""
    others: set[str] = field(default_factory=set)
    """Names that hold something which only running the code would show."""
    stars: list[str] = field(default_factory=list)
    """Modules all of whose names are imported."""


class Unknown(Exception):
    """There is no such module, or no such function in it."""

    def __init__(self, message: str, name: str, known: Iterable[str]) -> None:
        super().__init__(message)
        self.name = name
        """What is not there: a module, or a function of it."""
        self.known = sorted(known)
        """What there is instead."""


class Sources:
    """Finds the source of modules: of this interpreter, and of archives with user code."""

    def __init__(self, archives: tuple[Path, ...]) -> None:
        self._archives = archives

    def module(self, name: str) -> Module | None:
        """The module; null for one that has no Python source. Raises `Unknown`."""
        for archive in self._archives:
            content = _archived(archive, _stamp(archive)).get(name)
            if content is not None:
                return _read(name, *content)
        try:
            return _installed(name, self._archives)
        except Unknown:
            # Such as `os.path`: no file has this name, and still it is imported.
            if name in sys.modules:
                return None
            raise


@cache
def _installed(name: str, archives: tuple[Path, ...]) -> Module | None:
    spec = _spec(name, archives)
    if not isinstance(spec.loader, SourceFileLoader):
        return None
    path = Path(spec.loader.get_filename(name))
    is_package = spec.submodule_search_locations is not None
    return _read(name, path.read_bytes(), is_package) if path.stat().st_size <= MAX_SOURCE_BYTES else None


def _spec(name: str, archives: tuple[Path, ...]) -> ModuleSpec:
    """Where a module is. Packages around it are not imported, as `importlib.util.find_spec` would do."""
    places: list[str] | None = None
    parts = name.split(".")
    spec: ModuleSpec | None = None
    for number in range(1, len(parts) + 1):
        inner = ".".join(parts[:number])
        spec = PathFinder.find_spec(inner, places)
        if spec is None and number == 1:
            spec = BuiltinImporter.find_spec(inner)
        if spec is None:
            around = ".".join(parts[: number - 1])
            raise Unknown(f"there is no module {inner}", name, _modules(around, places, archives))
        places = list(spec.submodule_search_locations or []) if number < len(parts) else None
    assert spec is not None
    return spec


def _modules(package: str, places: list[str] | None, archives: tuple[Path, ...]) -> Iterator[str]:
    """Modules right inside a package; of the top level only what is ours and the users'."""
    if package:
        yield from (f"{package}.{module.name}" for module in pkgutil.iter_modules(places))
        return
    yield "towpath"
    for archive in archives:
        yield from _archived(archive, _stamp(archive))


def _stamp(archive: Path) -> float:
    return archive.stat().st_mtime if archive.exists() else 0.0


@cache
def _archived(archive: Path, changed_at: float) -> Mapping[str, tuple[bytes, bool]]:
    """Module → source and whether it is a package, of an archive as it was at a time; empty if unreadable."""
    found: dict[str, tuple[bytes, bool]] = {}
    try:
        with zipfile.ZipFile(archive) as content:
            for entry in content.infolist():
                path = PurePosixPath(entry.filename)
                if path.suffix == ".py" and entry.file_size <= MAX_SOURCE_BYTES:
                    is_package = path.name == "__init__.py"
                    parts = path.parts[:-1] if is_package else path.with_suffix("").parts
                    found[".".join(parts)] = content.read(entry), is_package
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return {}
    return found


def _read(name: str, source: bytes, is_package: bool) -> Module | None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    module = Module(name, is_package)
    for statement in statements(tree.body):
        note(module, statement)
    return module


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module or class, also those that only run under a condition."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for name in ("body", "orelse", "finalbody"):
                yield from statements(getattr(statement, name, []))
            for handler in getattr(statement, "handlers", []):
                yield from statements(handler.body)


def note(module: Module, statement: ast.stmt) -> None:
    """Add what a statement defines to a module."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            module.functions[name] = statement
        case ast.ClassDef(name=name):
            module.classes[name] = statement
        case ast.ImportFrom(module=origin, names=names, level=level):
            _note_import(module, _absolute(module, origin, level), names)
        case ast.Import(names=names):
            module.others.update((alias.asname or alias.name).partition(".")[0] for alias in names)
        case _:
            stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            module.others.update(node.id for node in stored if isinstance(node.ctx, ast.Store))


def _note_import(module: Module, origin: str, names: list[ast.alias]) -> None:
    for alias in names:
        if alias.name == "*":
            module.stars.append(origin)
        else:
            module.imported[alias.asname or alias.name] = (origin, alias.name)


def _absolute(module: Module, origin: str | None, level: int) -> str:
    """The module that `from …origin import` means in a module."""
    if not level:
        return origin or ""
    parts = module.name.split(".")
    around = parts[: len(parts) - level + module.is_package]
    return ".".join([*around, *([origin] if origin else [])])
