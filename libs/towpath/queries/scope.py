"""The names of a query text with their meanings, and the types that the fields of events show."""

from __future__ import annotations

from dataclasses import dataclass, field

from towpath.contracts.fields import FieldType
from towpath.queries.problems import problem
from towpath.queries.providers import Declared
from towpath.queries.tree import Insight, Place


@dataclass
class Types:
    """The types of fields, as their uses show them."""

    shown: dict[str, FieldType] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    open: dict[str, Place] = field(default_factory=dict)
    """Fields of which a use shows no type."""
    grouped: set[str] = field(default_factory=set)
    """Fields in `BY`: texts, unless another use shows otherwise."""

    def show(self, name: str, kind: FieldType, place: Place) -> None:
        """Note that a field has a type. Raises `TowpathError` if it has another one."""
        known = self.shown.setdefault(name, kind)
        number = (FieldType.LONG, FieldType.DOUBLE)
        if known != kind and not (known in number and kind in number):
            first = self.places.get(name, place)
            what = f"{name!r} is of type {known} (line {first.line}), and here it would be of type {kind}"
            raise problem(
                place, what, found=name, allowed=f'a field, or its type in the stream: fields="{name}:…"'
            )
        self.places.setdefault(name, place)

    def found(self) -> dict[str, FieldType]:
        """Return all types. Raises `TowpathError` for a field of which nothing shows one."""
        shown = {**dict.fromkeys(self.grouped, FieldType.STRING), **self.shown}
        for name, place in self.open.items():
            if name not in shown:
                what = f"nothing shows whether {name!r} is a number or a text"
                raise problem(
                    place, what, found=name, allowed=f'its type in the stream: fields="{name}:double"'
                )
        return dict(sorted(shown.items()))


@dataclass
class Scope:
    """All that names may mean."""

    streams: dict[str, Declared]
    insights: dict[str, Insight]
    types: Types = field(default_factory=Types)

    def __post_init__(self) -> None:
        for one in self.streams.values():
            for name, kind in one.types.items():
                self.types.show(name, kind, Place(1, 1))
            if one.source.time is not None:
                self.types.show(one.source.time, FieldType.TIMESTAMP, Place(1, 1))
            for each in one.source.filters:
                if each.value is not None:
                    kind = FieldType.STRING if isinstance(each.value, str) else FieldType.DOUBLE
                    self.types.show(each.field, kind, Place(1, 1))
