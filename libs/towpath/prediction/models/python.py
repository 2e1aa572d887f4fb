"""The model `python`: an object of the user's class for each key, whose state is kept pickled.

The only pickle in the state of a prediction. It is read by the workers of the job alone, which run the user's
code anyway.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from towpath.prediction.registry import ALARM, NORMAL, Detector, ModelKind, Place, Sample, Verdict, register

STATISTIC, IS_ALARM = "statistic", "alarm"
"""Members of a mapping that the user's method may return, beside those that `writes` declares."""


class UserDetector(Detector):
    """The user's object of one key."""

    def __init__(self, parameters: Any) -> None:
        self._parameters = parameters
        self._made: Any = None
        self._since: Place | None = None
        """The first of the alarms in a row."""

    def saved(self) -> list[Any]:
        """See `Kept`."""
        return [self._since, None if self._made is None else pickle.dumps(self._made)]

    def restore(self, saved: list[Any]) -> None:
        """See `Kept`."""
        self._since, pickled = saved
        self._made = None if pickled is None else pickle.loads(pickled)

    def see(self, sample: Sample) -> Verdict:
        """See `Detector`. Raises `TypeError` if the method returns neither a number nor a mapping."""
        own = self._parameters
        if self._made is None:
            self._made = own.made_by(**own.parameters)
        said = self._made.predict(dict(zip(own.names, sample.beside, strict=True)))
        said = said if isinstance(said, Mapping) else {STATISTIC: said}
        statistic = _number(said.get(STATISTIC), own.entry)
        is_alarm = said.get(IS_ALARM)
        if is_alarm is None:
            is_alarm = own.threshold is not None and statistic is not None and statistic > own.threshold
        self._since = (self._since or sample.place) if is_alarm else None
        members = tuple(_plain(said.get(name)) for name in own.writes)
        return Verdict(ALARM if is_alarm else NORMAL, None, statistic, own.threshold, self._since, members)


def _number(said: Any, entry: str) -> float | None:
    try:
        number = None if said is None else float(said)
    except (TypeError, ValueError):
        raise TypeError(f"{entry} returned {said!r}; it must return a number or a mapping") from None
    return number if number is not None and math.isfinite(number) else None


def _plain(value: Any) -> Any:
    """A value of NumPy as one of Python; a time as microseconds since 1970."""
    plain = value.item() if hasattr(value, "item") else value
    return round(plain.timestamp() * 1e6) if isinstance(plain, datetime) else plain


PYTHON = register(
    ModelKind(
        name="python",
        detector=UserDetector,
        judging=frozenset({"threshold"}),
        writes=lambda parameters: parameters.writes,
        beside=lambda parameters: parameters.names,
        takes_all=True,
    )
)
