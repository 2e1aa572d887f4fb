"""The operators of an application, one behind the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from towpath.contracts.gateway import Code, Problem
from towpath.gateways.operators.operator import Event, Operator, Unfit, operators
from towpath.gateways.refusal import Refusal

OPERATOR = "operator"
"""Field of an operator's description that names it; all others are its parameters."""


class Chain:
    """A row of operators. Not aware of processes, files or MQTT."""

    def __init__(self, described: list[dict[str, Any]], properties: dict[str, Any]) -> None:
        """Build the operators of a manifest. Raises `Refusal` (400) with all that is wrong."""
        self._described = described
        self._operators = [kind(given) for kind, given in _checked(described, properties)]
        self.rejected = 0
        """Events that an operator could not use."""
        self.last_rejection: str | None = None

    def prepare(self) -> None:
        """Load what the operators need. Raises what user code raises when it is imported."""
        for operator in self._operators:
            operator.prepare()

    def configure(self, properties: dict[str, Any]) -> None:
        """Give the running operators the values of other properties. Raises `Refusal` and changes nothing."""
        checked = _checked(self._described, properties)
        for operator, (_, given) in zip(self._operators, checked, strict=True):
            operator.configure(given)

    def take(self, event: Event, now: float) -> list[Event]:
        """Send an event through all operators and return the results."""
        return self._from(0, [event], now)

    def tick(self, now: float) -> list[Event]:
        """Return the results that are due, sent through the operators behind."""
        results: list[Event] = []
        for place, operator in enumerate(self._operators):
            results += self._from(place + 1, operator.tick(now), now)
        return results

    def next_due(self) -> float | None:
        """Return the earliest time at which `tick` has results, or None."""
        return min((due for each in self._operators if (due := each.next_due()) is not None), default=None)

    def state(self) -> list[Any]:
        """Return the state of each operator."""
        return [operator.state() for operator in self._operators]

    def restore(self, state: list[Any]) -> None:
        """Take the state of a former run of the same operators."""
        for operator, kept in zip(self._operators, state, strict=True):
            if kept is not None:
                operator.restore(kept)

    def _from(self, place: int, events: Iterable[Event], now: float) -> list[Event]:
        current = [*events]
        for operator in self._operators[place:]:
            behind: list[Event] = []
            for event in current:
                try:
                    behind += operator.take(event, now)
                except Unfit as error:
                    self.rejected += 1
                    self.last_rejection = str(error)
            current = behind
        return current


def _checked(
    described: list[dict[str, Any]], properties: dict[str, Any]
) -> list[tuple[type[Operator[Any]], Any]]:
    found: list[tuple[type[Operator[Any]], Any]] = []
    problems: list[Problem] = []
    for place, each in enumerate(described):
        try:
            found.append(_one(f"operators.{place}", each, properties))
        except Refusal as refusal:
            problems += refusal.problems
    if problems:
        raise Refusal(Code.BAD_REQUEST, *problems)
    return found


def _one(
    field: str, described: dict[str, Any], properties: dict[str, Any]
) -> tuple[type[Operator[Any]], Any]:
    name = described.get(OPERATOR)
    kind = operators().get(name) if isinstance(name, str) else None
    if kind is None:
        raise Refusal.bad(
            "no such operator", field=f"{field}.{OPERATOR}", value=name, allowed=sorted(operators())
        )
    given = {key: _value(field, value, properties) for key, value in described.items() if key != OPERATOR}
    try:
        return kind, msgspec.convert(given, kind.parameters)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        allowed = ", ".join(kind.parameters.__struct_fields__)
        raise Refusal.bad(f"{name}: {message}", field=field + path.rstrip("`"), allowed=allowed) from error


def _value(field: str, value: Any, properties: dict[str, Any]) -> Any:
    """Return a parameter's value: `$name` stands for the property of that name, also inside of others."""
    if isinstance(value, dict):
        return {key: _value(field, each, properties) for key, each in value.items()}
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    if value[1:] not in properties:
        raise Refusal.bad("no such property", field=field, value=value, allowed=sorted(properties))
    return properties[value[1:]]
