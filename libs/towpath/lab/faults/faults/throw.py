"""Failures."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from functools import cache

from pydantic import Field, field_validator

from towpath.contracts.message import Model
from towpath.hooks.points import InjectedFault, Items
from towpath.lab.faults.registry import PointFault, T, fault

DEFAULT = "InjectedFault"


class ThrowParameters(Model):
    """Which exception."""

    error: str = Field(default=DEFAULT, pattern=r"^([A-Za-z_][A-Za-z0-9_.]*:)?[A-Za-z_][A-Za-z0-9_]*$")
    """An exception of Python such as `ConnectionError`, or `module:Class` of a module that the process
    has imported. Whatever it is, it is also an `InjectedFault`."""
    message: str = Field(default="injected fault", max_length=500)
    """Its text."""

    @field_validator("error")
    @classmethod
    def _names_an_exception(cls, name: str) -> str:
        if not _is_exception(name):
            raise ValueError("not an exception of Python; others are named module:Class")
        return name


@fault("throw", ThrowParameters)
class Throw(PointFault):
    """Raises an exception: nothing of a bundle with a hit passes.

    A Python worker of Spark ends with it, and `once` and `every` start again in the next one.
    """

    def change(self, items: Sequence[T], hits: Sequence[int], access: Items[T]) -> Sequence[T]:
        """Raise instead of letting anything pass."""
        raise injected(self.parameters.error)(self.parameters.message)


@cache
def injected(name: str) -> type[InjectedFault]:
    """Return the exception that is both the one of that name and an injected fault.

    `module:Class` is one of a module that the process has imported; rules import nothing. Raises
    `LookupError` when there is no such exception here.
    """
    if name == DEFAULT:
        return InjectedFault
    module_name, _, class_name = name.rpartition(":")
    module = sys.modules.get(module_name) if module_name else builtins
    kind = getattr(module, class_name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        raise LookupError(f"no exception {name} in this process")
    return type(f"Injected{class_name}", (InjectedFault, kind), {"__module__": __name__})


def _is_exception(name: str) -> bool:
    """Return true if it may be raised under this name, as far as that is known without the code at hand."""
    if name == DEFAULT or ":" in name:
        return True
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, Exception)
