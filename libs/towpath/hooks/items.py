"""How rules look at what passes a named point. Imports little: every worker of Spark does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Items(Generic[T]):
    """How to read and change what passes a named point."""

    payload: Callable[[T], bytes]
    fields: Callable[[T], Mapping[str, Any]]
    """What conditions may name, `payload` aside: `topic`, `serial`, `job`…"""
    with_payload: Callable[[T, bytes], T]
    columns: Mapping[str, Callable[[Sequence[T]], Sequence[Any]]] = field(default_factory=dict)
    """One field of all items, `payload` too, where that is quicker than item by item."""

    def column(self, name: str, items: Sequence[T]) -> Sequence[Any] | None:
        """One field of all items; null where no column is known."""
        column = self.columns.get(name)
        return None if column is None else column(items)
