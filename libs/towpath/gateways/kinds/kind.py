"""The base of kinds of applications, and the registry of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from towpath.contracts.gateway import Manifest
from towpath.gateways.refusal import Refusal

_MODULES = ("operators", "spark")
_REGISTRY: dict[str, Kind] = {}
_PROPERTY = re.compile(r"\$([A-Za-z0-9_.-]+)")


class Kind:
    """Everything that a gateway must know about the applications of one kind.

    The process of an application reads and writes the lines of `towpath.gateway.worker`.
    """

    module: ClassVar[str]
    """Program of an application's process: `python -m MODULE`."""

    end_s: ClassVar[float] = 0.0
    """Time for the process to end in good order when its input ends. Then it is killed."""

    properties: ClassVar[Mapping[str, Any]] = {}
    """Properties that each application of the kind has, with their default values."""

    def ready_s(self, values: Mapping[str, Any]) -> float:
        """Return how long the process may take to get ready, by the values of its properties."""
        raise NotImplementedError

    def check(self, manifest: Manifest, values: Mapping[str, Any]) -> None:
        """Check a manifest with values of its properties. Raises `Refusal` (400) with all that is wrong."""
        raise NotImplementedError

    def check_device(self, manifest: Manifest, directory: Path) -> None:
        """Check that the unpacked package can run on this device. Blocks. Raises `Refusal`."""

    def directories(self, manifest: Manifest, values: Mapping[str, Any], device: str) -> list[Path]:
        """Return directories outside of the gateway's own that go with the application."""
        return []

    def topics(self, manifest: Manifest, values: Mapping[str, Any], device: str) -> list[str]:
        """Return the topics that an application reads on a device: `$name` stands for a property."""

        def value(found: re.Match[str]) -> str:
            return str(values.get(found[1], found[0]))

        return [_PROPERTY.sub(value, topic) for topic in manifest.input.topics]


K = TypeVar("K", bound=Kind)


def register(name: str) -> Callable[[type[K]], type[K]]:
    """Register a kind under its name in the manifest."""

    def add(kind: type[K]) -> type[K]:
        _REGISTRY[name] = kind()
        return kind

    return add


def kind_named(name: str) -> Kind:
    """Return a kind. Raises `Refusal` (400)."""
    for module in _MODULES:
        import_module(f"towpath.gateways.kinds.{module}")
    if name not in _REGISTRY:
        raise Refusal.bad("no such kind of application", field="kind", value=name, allowed=sorted(_REGISTRY))
    return _REGISTRY[name]
