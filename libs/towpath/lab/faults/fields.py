"""What conditions may name, looked up only when they do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from towpath.hooks.points import Items


class PassingFields(Mapping[str, Any]):
    """The fields of one item that passes a point: its own, `payload`, and what is the same for all items."""

    def __init__(self, item: Any, access: Items[Any], context: Mapping[str, Any]) -> None:
        self._item = item
        self._access = access
        self._context = context

    @cached_property
    def _own(self) -> Mapping[str, Any]:
        return self._access.fields(self._item)

    def __getitem__(self, name: str) -> Any:
        if name == "payload":
            return self._access.payload(self._item)
        return self._context[name] if name in self._context else self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter({"payload", *self._context, *self._own})

    def __len__(self) -> int:
        return len({"payload", *self._context, *self._own})
