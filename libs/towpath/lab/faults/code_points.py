"""Which functions there are to look at, and exceptions to raise, found in their source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from towpath.lab.faults.sources import Function, Module, Sources, Unknown, note, statements

_MAX_HOPS = 8
"""Imports that are followed from a name to where it is defined, and base classes from a class."""

_WITHOUT_METHODS = frozenset({"object", "ABC", "Generic", "Protocol"})

_OPAQUE = object()
"""Something that only running the code would show."""


def parameters_of(code: str, archives: Iterable[Path]) -> frozenset[str] | None:
    """Names of the parameters of `module:function` or `module:Class.method`; null where nobody can tell.

    `archives` are zips with user code. Raises `Unknown` when there certainly is no such function.
    """
    module_name, _, path = code.partition(":")
    sources = Sources(tuple(archives))
    module = sources.module(module_name)
    if module is None:
        return None
    owner = _Search(sources).member(module, path.split(".")[:1])
    found = _Search(sources).member(module, path.split("."))
    known = _methods(owner, path) if isinstance(owner, ast.ClassDef) else _callables(module)
    if found is None:
        raise Unknown(f"module {module_name} has no function {path}", path, known)
    if isinstance(found, ast.ClassDef):
        raise Unknown(f"{path} is a class: name one of its methods", path, known)
    return _parameters(found) if isinstance(found, Function) else None


def find_exception(name: str, archives: Iterable[Path]) -> None:
    """Raise `Unknown` when there certainly is no such exception, `module:Class`."""
    module_name, _, class_name = name.partition(":")
    sources = Sources(tuple(archives))
    module = sources.module(module_name)
    if module is None:
        return
    found = _Search(sources).member(module, [class_name])
    known = (each for each in module.classes if not each.startswith("_"))
    if found is None:
        raise Unknown(f"module {module_name} has no class {class_name}", class_name, known)
    if isinstance(found, Function) or (isinstance(found, ast.ClassDef) and not found.bases):
        raise Unknown(f"{class_name} is no exception", class_name, known)


def _parameters(function: Function) -> frozenset[str]:
    """The function's parameters; all names are possible where it takes any."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named.extend(each for each in (arguments.vararg, arguments.kwarg) if each is not None)
    return frozenset(argument.arg for argument in named) | {"self"}


class _Search:
    """Follows a name to its definition."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._hops = 0

    def member(self, module: Module, path: list[str]) -> object | None:
        """The definition; `_OPAQUE` if only running the code would tell; null if there certainly is none."""
        name, *inner = path
        home, found = self._top(module, name)
        if not inner or found is None or found is _OPAQUE:
            return found
        return self._method(home, found, inner[0]) if isinstance(found, ast.ClassDef) else None

    def _top(self, module: Module, name: str) -> tuple[Module, object | None]:
        """A name of a module, and the module that defines it."""
        if name in module.functions:
            return module, module.functions[name]
        if name in module.classes:
            return module, module.classes[name]
        if name in module.imported:
            return self._elsewhere(module, *module.imported[name])
        if name in module.others or "__getattr__" in module.functions or name.startswith("__"):
            return module, _OPAQUE
        for origin in module.stars:
            home, found = self._elsewhere(module, origin, name)
            if found is not None:
                return home, found
        return module, None

    def _elsewhere(self, module: Module, origin: str, name: str) -> tuple[Module, object | None]:
        self._hops += 1
        if self._hops > _MAX_HOPS:
            return module, _OPAQUE
        try:
            other = self._sources.module(origin)
        except Unknown:
            return module, _OPAQUE
        if other is None or other.name == module.name:
            return module, _OPAQUE
        home, found = self._top(other, name)
        return home, found

    def _method(self, module: Module, owner: ast.ClassDef, name: str) -> object | None:
        """A method of a class, or of the classes that it inherits from."""
        for statement in statements(owner.body):
            if isinstance(statement, Function) and statement.name == name:
                return statement
        if name.startswith("__") or owner.keywords or not all(map(_adds_no_method, owner.decorator_list)):
            return _OPAQUE
        assigned = Module(module.name, module.is_package)
        for statement in statements(owner.body):
            note(assigned, statement)
        if name in assigned.others:
            return _OPAQUE
        for base in owner.bases:
            if isinstance(base, ast.Subscript):
                base = base.value
            if not isinstance(base, ast.Name):
                return _OPAQUE
            found = self._inherited(module, base.id, name)
            if found is not None:
                return found
        return None

    def _inherited(self, module: Module, base: str, name: str) -> object | None:
        if base in _WITHOUT_METHODS:
            return None
        home, found = self._top(module, base)
        if not isinstance(found, ast.ClassDef):
            return _OPAQUE
        self._hops += 1
        return _OPAQUE if self._hops > _MAX_HOPS else self._method(home, found, name)


def _adds_no_method(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id in ("dataclass", "final")


def _callables(module: Module) -> Iterator[str]:
    """What a module defines itself, without what is private."""
    yield from (name for name in module.functions if not name.startswith("_"))
    for owner in module.classes.values():
        yield from _methods(owner, owner.name)


def _methods(owner: ast.ClassDef, path: str) -> Iterator[str]:
    for statement in statements(owner.body):
        if isinstance(statement, Function) and not statement.name.startswith("__"):
            yield f"{path.partition('.')[0]}.{statement.name}"
