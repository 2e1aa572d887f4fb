"""`python`: a function of the package's own code, called with each event.

The function gets the event and the parameters. It returns an event, a list of events, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Annotated, Any

import msgspec

from towpath.gateways.operators.operator import Event, Operator, Unfit, register


class PythonParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The function, and what it is called with."""

    function: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
    """`module:function`; the module is in the package."""
    parameters: dict[str, Any] = {}


@register("python")
class Python(Operator[PythonParameters]):
    """Calls a function of the package."""

    parameters = PythonParameters

    def prepare(self) -> None:
        """Import the function. Raises `ImportError` or `AttributeError`."""
        module, _, name = self.set.function.partition(":")
        self._function: Callable[[Event, dict[str, Any]], Any] = getattr(import_module(module), name)

    def take(self, event: Event, now: float) -> Iterable[Event]:
        """Return what the function returns."""
        try:
            given = self._function(event, self.set.parameters)
        except Exception as error:
            raise Unfit(f"{self.set.function} raised {type(error).__name__}: {error}") from error
        if given is None:
            return ()
        results = [given] if isinstance(given, dict) else given
        if not isinstance(results, list) or not all(isinstance(each, dict) for each in results):
            raise Unfit(f"{self.set.function} returned neither events nor None")
        return results
