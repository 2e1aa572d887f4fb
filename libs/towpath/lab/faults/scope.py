"""What an expression sees: the fields of what passes, and where the rule stands in its process.

Nothing that a condition names can make it fail, or run code of its choice: what is not there is null, an
object shows what it stores and its properties, and never what begins with an underscore.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable, Mapping, MutableMapping
from datetime import date
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np
import orjson

from towpath.lab.faults.chance import Chance
from towpath.lab.faults.vocabulary import COUNTER

_PLAIN = frozenset({str, int, float, bool, type(None), bytes, dict, list, tuple})
_SHOWN = (property, cached_property)

SharedValues = Callable[[str], float | None]
"""A shared value by its key, such as `cpu_percent(jfk)`; null where nobody knows it."""


class Counters:
    """Counters by name. All rules of a process may share one set of them."""

    def __init__(self) -> None:
        self._counts: MutableMapping[str, int] = {}
        self._lock = threading.Lock()

    def next(self, name: str) -> int:
        """Count up, from 1."""
        with self._lock:
            count = self._counts[name] = self._counts.get(name, 0) + 1
        return count


class Scope:
    """One occurrence after the other, as an expression sees it. Only its own thread may use it."""

    def __init__(
        self,
        *,
        shared: SharedValues = lambda key: None,
        counters: Counters | None = None,
        chances: tuple[Chance, ...] = (),
    ) -> None:
        self.shared = shared
        self.counters = counters or Counters()
        self.chances = chances
        self.count = 0
        self.acted = 0
        self.elapsed = 0.0
        """Seconds since the rule was loaded."""
        self._load: Callable[[], Mapping[str, Any]] = dict
        self._fields: Mapping[str, Any] | None = None
        self._event: Any = None
        self._event_is_read = False

    def enter(self, load: Callable[[], Mapping[str, Any]]) -> None:
        """Look at another occurrence; its fields are loaded when something is asked of them."""
        self._load = load
        self._fields = None
        self._event_is_read = False

    def named(self, name: str) -> Any:
        """The field of this name; null where there is none."""
        if self._fields is None:
            self._fields = self._load()
        return plain(self._fields.get(name))

    def event(self) -> Any:
        """The JSON that the payload is; null where it is none."""
        if not self._event_is_read:
            self._event = json_of(self.named("payload"))
            self._event_is_read = True
        return self._event

    def count_up(self, name: str) -> int:
        """The next count of a counter."""
        return self.counters.next(name)

    def measured(self, function: str, site: str | None) -> float | None:
        """A shared value of a scope; of the process's own when `site` is null."""
        return self.shared(f"{function}({self.named('site') if site is None else site})")


ROOTS: Mapping[str, Callable[[Scope], Any]] = {
    "event": Scope.event,
    "count": lambda scope: scope.count,
    "acted": lambda scope: scope.acted,
}
"""Names that are no field of what passes."""

IMPURE = frozenset({"acted", COUNTER})
"""What one occurrence changes for the next: these are looked at one after the other."""


def json_of(payload: Any) -> Any:
    """The JSON that a payload is; null where it is none. Integers of more than 64 bits lose digits.

    Events that could fulfil a condition on a field (see `sieve`) are parsed once more for it, so it matters
    how fast that is.
    """
    if not isinstance(payload, str | bytes):
        return None
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError:
        return _json_as_python_has_it(payload)


def _json_as_python_has_it(payload: str | bytes) -> Any:
    """With NaN and the like, which JSON has not, but senders have."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def plain(value: Any) -> Any:
    """A value as expressions know it: text, bytes, number, boolean, null, list, mapping, or else opaque."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, UUID | PurePath):
        return str(value)
    return value.isoformat() if isinstance(value, date) else value


def inside(value: Any, step: str | int) -> Any:
    """What lies in a value under a key, an attribute's name or a place; null where nothing does."""
    if isinstance(value, Mapping):
        return plain(value.get(step)) if isinstance(step, str) else None
    if isinstance(step, str):
        return plain(_attribute(value, step))
    if isinstance(value, list | tuple) and -len(value) <= step < len(value):
        return plain(value[step])
    return None


def _attribute(value: Any, name: str) -> Any:
    if type(value) in _PLAIN or name.startswith("_"):
        return None
    found = inspect.getattr_static(value, name, None)
    if found is None or (callable(found) and not isinstance(found, _SHOWN)):
        return None
    try:
        shown = getattr(value, name)
    except Exception:  # A property is code of the process, and may raise anything.
        return None
    return None if callable(shown) else shown
