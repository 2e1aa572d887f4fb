"""Describe a kind of model. A new one is a contract, and a module in `models` that registers its kind.

The module has a class derived from `Detector`, and its kind. Everything that depends on a job's model asks
the kind: the fields of results, the parameters that an update may change, and the detector itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from towpath.descriptors import Descriptors
from towpath.prediction.kept import Kept

Place = Sequence[int]
"""An event's serial number and its time, microseconds since 1970."""

LEARNING, NORMAL, ALARM, NO_VALUE = "learning", "normal", "alarm", "no_value"
"""States of a model after an event. The last one is of events that lack a number which the model needs."""

UPPER, LOWER = "upper", "lower"
"""Sides of a change."""

VERDICT: dict[str, str] = {
    "model": "string",
    "state": "string",
    "side": "string",
    "statistic": "double",
    "limit": "double",
    "since": "timestamp",
    "since_serial": "long",
}
"""Fields that every model adds to a result, with their types."""


class Sample(NamedTuple):
    """The part of an event that a model sees."""

    value: float
    place: Place
    beside: Sequence[Any]
    """Values of the other numbers that the model needs, in their order."""


class Verdict(NamedTuple):
    """The judgement of a model after an event."""

    state: str
    side: str | None
    """The side of the change in an alarm. None for other states, and for models that know no sides."""
    statistic: float | None
    limit: float | None
    """The statistic above which there is an alarm."""
    since: Place | None
    """The event at which the statistic last left zero, or from which on a change is seen."""
    own: tuple[Any, ...] = ()
    """The model's own fields, in the order of `ModelKind.writes`."""


class Detector(Kept):
    """A model of one key."""

    def __init__(self, parameters: Any) -> None:
        """`parameters` has the attributes of the model's contract."""

    @abstractmethod
    def see(self, sample: Sample) -> Verdict:
        """Take in an event, and say what is known after it."""


def _nothing(parameters: Any) -> dict[str, str]:
    return {}


@dataclass(frozen=True, kw_only=True)
class ModelKind:
    """A kind of model."""

    name: str
    """The `kind` of its contract."""
    detector: Callable[[Any], Detector]
    judging: frozenset[str]
    """Parameters that only judge: an update of them keeps the state. All others are part of it."""
    writes: Callable[[Any], Mapping[str, str]] = _nothing
    """Fields that its results have beside `VERDICT`, with their types."""
    beside: Callable[[Any], Sequence[str]] = lambda parameters: ()
    """Numbers that it needs beside `of`: `Sample.beside`."""
    takes_all: bool = False
    """`beside` names fields of all types and aggregates, which may be None, and there is no `of`."""


KINDS = Descriptors[ModelKind]("model", ["towpath.prediction.models"])


def register(kind: ModelKind) -> ModelKind:
    """Make a kind known. Raises `ValueError` when another one has its name."""
    KINDS.register(kind.name, kind)
    return kind
