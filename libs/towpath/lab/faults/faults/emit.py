"""Instrumentation: measures what the system does not expose."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from pydantic import Field, field_validator

from towpath.contracts.message import Model
from towpath.lab.faults.conditions import compile_value
from towpath.lab.faults.registry import Measurement, PointFault, fault

_EXPRESSION = re.compile(r"\{([^{}]*)\}")


class EmitParameters(Model):
    """The metric, and the expressions that compute it."""

    metric: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    """Name; ends with its unit: `_s`, `_bytes`, `_events`."""
    value: str = Field(default="1", max_length=2_000)
    """An expression over what conditions may name, for example `size(payload)`."""
    labels: dict[str, str] = Field(default={}, max_length=16)
    """More about it: texts, in which `{expression}` stands for its value."""
    entity: str | None = Field(default=None, max_length=200)
    """The thing that was measured: a text as in `labels`; null: the process."""

    @field_validator("value")
    @classmethod
    def _compiles(cls, text: str) -> str:
        compile_value(text)
        return text

    @field_validator("labels", "entity")
    @classmethod
    def _all_compile(cls, given: Any) -> Any:
        for text in given.values() if isinstance(given, dict) else [given or ""]:
            for expression in _EXPRESSION.findall(text):
                compile_value(expression)
        return given


@fault("emit", EmitParameters)
class Emit(PointFault):
    """Sends a measurement of each hit, and changes nothing."""

    measures: ClassVar[bool] = True

    @classmethod
    def expressions(cls, parameters: EmitParameters) -> Sequence[str]:
        """The value, and what stands in braces."""
        texts = [*parameters.labels.values(), parameters.entity or ""]
        return [parameters.value, *(each for text in texts for each in _EXPRESSION.findall(text))]

    def measured(self, evaluate: Callable[[str], Any]) -> Sequence[Measurement]:
        """The one measurement."""
        labels = {name: _filled(text, evaluate) for name, text in self.parameters.labels.items()}
        entity = self.parameters.entity and _filled(self.parameters.entity, evaluate)
        value = float(evaluate(self.parameters.value))
        return [Measurement(self.parameters.metric, value, labels, entity)]


def _filled(text: str, evaluate: Callable[[str], Any]) -> str:
    return _EXPRESSION.sub(lambda found: str(evaluate(found.group(1))), text)
