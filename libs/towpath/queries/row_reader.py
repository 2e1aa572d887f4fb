"""Find the meaning of what is computed of a single event: values, and conditions on its fields."""

from __future__ import annotations

from dataclasses import dataclass, replace

from towpath.contracts.fields import FieldType
from towpath.queries.problems import problem
from towpath.queries.providers import field_name
from towpath.queries.scope import Scope
from towpath.queries.tree import (
    Arithmetic,
    Both,
    Call,
    Comparison,
    Condition,
    Either,
    Expression,
    Filtered,
    Membership,
    Metric,
    Negative,
    Place,
    metrics_in,
)

ANSWER = "value"
"""The one field of an answer that another query reads."""

_TEXT_TESTS = ("==", "!=")


@dataclass(frozen=True)
class RowReader:
    """Finds the meaning of what is computed of a single event."""

    scope: Scope
    streams: tuple[str, ...]
    insight: str | None

    def value(self, expression: Expression, needs: FieldType | None) -> Expression:
        """The expression over fields. `needs` is the type that its use asks for; None if any will do."""
        match expression:
            case Metric():
                return self._field(expression, needs)
            case Negative(value):
                return Negative(self.value(value, FieldType.DOUBLE))
            case Arithmetic(operator, left, right):
                left, right = (self.value(one, FieldType.DOUBLE) for one in (left, right))
                return Arithmetic(operator, left, right)
            case Call():
                arguments = tuple(self.value(one, FieldType.DOUBLE) for one in expression.arguments)
                return replace(expression, arguments=arguments)
            case Filtered():
                place = next((metric.place for metric in metrics_in(expression)), Place(1, 1))
                what = "WHEN stands behind all that a function takes of an event"
                raise problem(place, what, allowed="AVG(ABS(delay) WHEN > 15, 1 HOURS)")
            case _:
                return expression

    def condition(self, condition: Condition, about: Expression) -> Condition:
        """The condition with what it is about in place of what was left out."""
        match condition:
            case Both(left, right):
                return Both(self.condition(left, about), self.condition(right, about))
            case Either(left, right):
                return Either(self.condition(left, about), self.condition(right, about))
            case Comparison(left, operator, right, place=place):
                kind = FieldType.STRING if isinstance(right, str) else FieldType.DOUBLE
                if isinstance(right, str) and operator not in _TEXT_TESTS:
                    raise problem(
                        place, "texts are compared with == and !=", found=operator, allowed=[*_TEXT_TESTS]
                    )
                compared = right if isinstance(right, str) else self.value(right, FieldType.DOUBLE)
                return Comparison(self._left(left, about, kind, place), operator, compared, place=place)
            case Membership(left, values):
                kinds = {FieldType.STRING if isinstance(value, str) else FieldType.DOUBLE for value in values}
                place = next((metric.place for metric in metrics_in(left or about)), Place(1, 1))
                if len(kinds) > 1:
                    raise problem(place, "IN lists numbers, or texts", allowed="values of one type")
                return Membership(self._left(left, about, kinds.pop(), place), values)

    def _left(self, left: Expression | None, about: Expression, kind: FieldType, place: Place) -> Expression:
        if left is not None and (kind is not FieldType.STRING or isinstance(left, Metric)):
            return self.value(left, kind)
        if kind is FieldType.STRING and self.insight is not None:
            raise problem(place, "answers are numbers", allowed="a number")
        if isinstance(about, Metric) and left is None:
            self._show(about.name, kind, place)
        elif kind is FieldType.STRING:
            raise problem(place, "a computed value is a number", allowed="a number")
        return about

    def _field(self, metric: Metric, needs: FieldType | None) -> Metric:
        if self.insight is not None:
            if metric.name != self.insight or metric.streams:
                what = f"an answer of {self.insight!r} has one value only"
                raise problem(metric.place, what, found=metric.name, allowed=[self.insight])
            if needs is FieldType.STRING:
                raise problem(metric.place, "answers are numbers", found=metric.name, allowed="a number")
            return Metric(ANSWER, place=metric.place)
        if self._is_elsewhere(metric):
            what = f"{metric.name!r} is of other events than the value that the condition is about"
            allowed = f'"{metric.name}" FROM ({", ".join(self.streams)})'
            raise problem(metric.place, what, found=metric.name, allowed=allowed)
        name = field_name(self._field_name(metric), metric.place)
        self._show(name, needs, metric.place)
        return Metric(name, place=metric.place)

    def _is_elsewhere(self, metric: Metric) -> bool:
        if metric.streams:
            return {*metric.streams} != {*self.streams}
        is_taken = metric.name in self.scope.streams or metric.name in self.scope.insights
        return metric.is_insight or (is_taken and metric.name not in self.streams)

    def _field_name(self, metric: Metric) -> str:
        if metric.name not in self.streams or metric.streams:
            return metric.name
        value = self.scope.streams[metric.name].value
        if value is None:
            what = f"{metric.name!r} is a stream, whose events have fields"
            raise problem(metric.place, what, found=metric.name, allowed=f'"field" FROM ({metric.name})')
        return value

    def _show(self, name: str, kind: FieldType | None, place: Place) -> None:
        if self.insight is not None:
            return
        if kind is None:
            self.scope.types.open.setdefault(name, place)
        else:
            self.scope.types.show(name, kind, place)
