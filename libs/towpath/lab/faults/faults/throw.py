"""Failures."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, field_validator

from towpath.contracts.message import Model
from towpath.hooks.points import Items
from towpath.lab.faults.injected import DEFAULT, injected, is_exception
from towpath.lab.faults.registry import PointFault, T, fault


@fault("throw")
class Throw(PointFault):
    """Raises an exception: nothing of a bundle with a hit passes.

    A Python worker of Spark ends with it, and `once` and `every` start again in the next one.
    """

    class Parameters(Model):
        """Which exception."""

        error: str = Field(default=DEFAULT, pattern=r"^([A-Za-z_][A-Za-z0-9_.]*:)?[A-Za-z_][A-Za-z0-9_]*$")
        """An exception of Python such as `ConnectionError`, or `module:Class` of a module that the process
        has imported. Whatever it is, it is also an `InjectedFault`."""
        message: str = Field(default="injected fault", max_length=500)
        """Its text."""

        @field_validator("error")
        @classmethod
        def _is_exception(cls, name: str) -> str:
            if not is_exception(name):
                raise ValueError("not an exception of Python; others are named module:Class")
            return name

    def change(self, items: Sequence[T], hits: Sequence[int], access: Items[T]) -> Sequence[T]:
        """Raise instead of letting anything pass."""
        raise self._error()

    def _error(self) -> Exception:
        return injected(self.parameters.error)(self.parameters.message)
