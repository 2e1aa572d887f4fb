"""Descriptors that register themselves: each says everything about one thing, in a module of its own.

Such a module registers its descriptor when it is loaded. So one new file in the right package adds a
strategy, an operator, a service or a fault.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Descriptors(Generic[T]):
    """All descriptors of one kind."""

    def __init__(self, kind: str, packages: Sequence[str], optional: Sequence[str] = ()) -> None:
        """Each module of `packages` registers its descriptors. `optional` packages may not be installed."""
        self._kind = kind
        self._packages, self._optional = packages, optional
        self._loaded = False
        self.registered: dict[str, T] = {}
        """Name → descriptor, of the modules that are loaded. Read it through `by_name`."""

    def register(self, name: str, descriptor: T) -> None:
        """Make a descriptor known. Raises `ValueError` when another one has its name."""
        if name in self.registered:
            raise ValueError(f"there are two {self._kind}s {name!r}")
        self.registered[name] = descriptor

    def by_name(self) -> dict[str, T]:
        """Return all descriptors by name, in the order of their names."""
        self._load()
        return dict(sorted(self.registered.items()))

    def __getitem__(self, name: str) -> T:
        """Return the descriptor of this name. Raises `KeyError`."""
        self._load()
        return self.registered[name]

    def _load(self) -> None:
        if self._loaded:
            return
        packages = [importlib.import_module(name) for name in self._packages]
        for name in self._optional:
            with suppress(ModuleNotFoundError):
                packages.append(importlib.import_module(name))
        for package in packages:
            for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                importlib.import_module(module.name)
        self._loaded = True
