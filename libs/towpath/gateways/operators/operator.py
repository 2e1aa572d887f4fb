"""The base of gateway operators, and the registry of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

Event = dict[str, Any]
P = TypeVar("P", bound=msgspec.Struct)
Kind = TypeVar("Kind", bound="type[Operator[Any]]")

MOST_KEYS = 10_000
"""Keys, such as sensors, that an operator remembers: about 3 MB."""

_MODULES = ("aggregate", "filter", "map", "python", "sample", "threshold")
_REGISTRY: dict[str, type[Operator[Any]]] = {}


class Unfit(Exception):
    """An event that an operator cannot use. It is counted and not passed on."""


class Operator(Generic[P]):
    """One step of an application. Events go in one by one, results come out.

    It runs in a process of its own, so it may keep state in its attributes. `configure` changes its
    parameters while it runs, and keeps the state.
    """

    parameters: ClassVar[type[msgspec.Struct]]
    """Form of the parameters in the manifest."""

    def __init__(self, parameters: P) -> None:
        self.set: P = parameters

    def configure(self, parameters: P) -> None:
        """Take other parameters. The state stays."""
        self.set = parameters

    def prepare(self) -> None:
        """Load what the operator needs. Called in the process in which it runs, and not to check it."""

    def take(self, event: Event, now: float) -> Iterable[Event]:
        """Take an event at a time, in seconds since the epoch. Return results. Raises `Unfit`."""
        raise NotImplementedError

    def next_due(self) -> float | None:
        """Return the time at which `tick` has results, or None."""
        return None

    def tick(self, now: float) -> Iterable[Event]:
        """Return the results that are due."""
        return ()

    def state(self) -> Any:
        """Return what must survive a restart, as JSON has it; None if nothing."""
        return None

    def restore(self, state: Any) -> None:
        """Take the state of a former run."""


def register(*names: str) -> Callable[[Kind], Kind]:
    """Register an operator under these names of the manifest."""

    def add(operator: Kind) -> Kind:
        for name in names:
            _REGISTRY[name] = operator
        return operator

    return add


def operators() -> dict[str, type[Operator[Any]]]:
    """Return all operators by name."""
    for module in _MODULES:
        import_module(f"towpath.gateways.operators.{module}")
    return _REGISTRY


def number(event: Event, field: str) -> float:
    """Return a field's number. Raises `Unfit`."""
    value = event.get(field)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Unfit(f"field {field!r} is {value!r}, not a number")
    return value


def key_of(event: Event, field: str | None) -> str:
    """Return the text by which an operator keeps events apart; empty if no field does that.

    Raises `Unfit` for an event that lacks the field.
    """
    if field is None:
        return ""
    if event.get(field) is None:
        raise Unfit(f"field {field!r} is missing")
    return str(event[field])


def admit(key: str, known: dict[str, Any]) -> str:
    """Return the key. Raises `Unfit` if it is one too many to remember."""
    if key not in known and len(known) >= MOST_KEYS:
        raise Unfit(f"more than {MOST_KEYS} keys")
    return key
