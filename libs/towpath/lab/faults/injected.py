"""The exceptions that `throw` raises, by name."""

from __future__ import annotations

import builtins
import sys
from functools import cache

from towpath.hooks.points import InjectedFault

DEFAULT = "InjectedFault"


def is_exception(name: str) -> bool:
    """Whether `throw` may raise under this name, as far as that can be told without the code at hand:
    an exception of Python, or `module:Class`."""
    if name == DEFAULT or ":" in name:
        return True
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, Exception)


@cache
def injected(name: str) -> type[InjectedFault]:
    """The exception that is both the one of that name and an injected fault.

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
