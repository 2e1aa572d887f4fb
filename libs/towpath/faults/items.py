"""How rules look at what passes a named point. Imports little: every worker of Spark does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Items(Generic[T]):
    """How to read and change what passes a named point."""

    payload: Callable[[T], bytes]
    fields: Callable[[T], Mapping[str, Any]]
    """What conditions may name, `payload` aside: `topic`, `serial`, `job`…"""
    with_payload: Callable[[T, bytes], T]
