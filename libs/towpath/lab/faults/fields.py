"""What conditions may name, looked up only when they do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from towpath.hooks.points import Items
from towpath.lab.faults.registry import Call


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


class CallFields(Mapping[str, Any]):
    """The fields of a call: `args`, `result`, `error`, `took_s`, and what is the same for all calls."""

    def __init__(self, call: Call, context: Mapping[str, Any]) -> None:
        self._context = context
        self._of_call: dict[str, Callable[[], Any]] = {
            "args": lambda: call.arguments,
            "result": lambda: call.result,
            "error": lambda: _told(call.error),
            "took_s": lambda: call.took_s,
        }

    def __getitem__(self, name: str) -> Any:
        known = self._of_call.get(name)
        return self._context[name] if known is None else known()

    def __iter__(self) -> Iterator[str]:
        return iter({*self._of_call, *self._context})

    def __len__(self) -> int:
        return len({*self._of_call, *self._context})


def _told(error: BaseException | None) -> dict[str, str] | None:
    return None if error is None else {"type": type(error).__name__, "message": str(error)}


class Arguments(Mapping[str, Any]):
    """The arguments of a call by parameter name, `self` included; matched up when first asked for.

    Those of a function whose parameters Python does not know have their places for names: `0`, `1`…
    """

    def __init__(
        self, function: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self._function = function
        self._instance = instance
        self._given = args, kwargs

    @cached_property
    def _by_name(self) -> dict[str, Any]:
        args, kwargs = self._given
        try:
            bound = inspect.signature(self._function).bind(*args, **kwargs)
            bound.apply_defaults()
            named = dict(bound.arguments)
        except (TypeError, ValueError):
            named = {**{str(place): value for place, value in enumerate(args)}, **kwargs}
        return named if self._instance is None else {"self": self._instance, **named}

    def __getitem__(self, name: str) -> Any:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)
