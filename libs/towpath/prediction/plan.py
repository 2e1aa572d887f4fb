"""The parameters of a prediction as plain objects, for Spark's Python workers: they know no contracts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from towpath.prediction.registry import KINDS, ModelKind

if TYPE_CHECKING:
    from towpath.contracts.prediction import Predict


@dataclass(frozen=True)
class Plan:
    """All that computes the results of one key."""

    rolling: Any
    """The attributes of `Rolling`; None without rolling aggregates."""
    model: Any
    """The attributes of the model's contract. For a class of the user also `made_by`, which is that class,
    and `names`: those of the values that its objects take."""
    output: str
    above: float | None

    @classmethod
    def of(cls, operator: Predict, made_by: Callable[..., Any] | None = None) -> Plan:
        """Return the plan of an operator. `made_by` is the class of the user, if its model is one."""
        body = operator.model_dump()
        rolling = operator.rolling and SimpleNamespace(
            **{
                **body["rolling"],
                "aggregates": {n: _plain(a) for n, a in body["rolling"]["aggregates"].items()},
            }
        )
        names = [*operator.fields, *(operator.rolling.aggregates if operator.rolling else ())]
        user = {} if operator.user_model is None else {"made_by": made_by, "names": names}
        return cls(rolling, _plain({**body["model"], **user}), str(operator.output), operator.above)

    @property
    def kind(self) -> ModelKind:
        """The kind of the model."""
        return KINDS[self.model.kind]

    @property
    def numbers(self) -> Sequence[str]:
        """The fields whose numbers rolling aggregates and model need."""
        rolled = self.rolling.aggregates if self.rolling else {}
        aggregated = {one.field for one in rolled.values() if one.field is not None}
        watched = set() if self.kind.takes_all else {self.model.of, *self.kind.beside(self.model)} - {*rolled}
        return sorted(aggregated | watched)


def _plain(body: dict[str, Any]) -> SimpleNamespace:
    """The members as attributes. Enumerations become texts, because they would bring their module along."""
    return SimpleNamespace(**{name: str(v) if isinstance(v, str) else v for name, v in body.items()})
