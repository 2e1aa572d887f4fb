"""The function that Spark calls with the events of a key in a micro-batch, as pandas frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np
import pandas as pd

from towpath.prediction.keyed import Keyed, KeyEvents
from towpath.prediction.plan import Plan

TIME, ORDER, NUMBER = "event time", "order", "number "
"""Columns of the frames beside `serial`: microseconds since 1970; what comes before the serial number in the
order of events; the prefix of a number's column."""

SERIAL = "serial"

_DECODED: dict[str, Callable[[Any], Any]] = {
    "timestamp": lambda micros: datetime.fromtimestamp(micros / 1e6, UTC),
    "long": int,
}


class GroupState(Protocol):
    """The part of Spark's class that is used here."""

    @property
    def exists(self) -> bool:
        """True if there is state of this key."""
        ...

    @property
    def get(self) -> tuple[Any, ...]:
        """The state."""
        ...

    def update(self, newValue: tuple[Any, ...]) -> None:
        """Replace the state."""
        ...


@dataclass(frozen=True)
class FieldColumn:
    """Where the frames hold a field."""

    column: str
    is_null: str | None
    """The column that says where it is null; None if the column itself does."""
    type: str


@dataclass(frozen=True)
class KeyGroups:
    """Computes the results of keys. Its methods are what Spark calls."""

    plan: Plan
    carried: Sequence[str]
    """Columns that results take over from their events."""
    written: Mapping[str, str]
    """Columns of results beside these, with their types."""
    fields: Mapping[str, FieldColumn]
    """The declared fields, if the model takes them all."""

    def stateful(self, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        """For `applyInPandasWithState`: the events of a micro-batch, with the key's state."""
        keyed = Keyed(self.plan, bytes(state.get[0]) if state.exists else None)
        first, *others = frames
        yield self._results(keyed, pd.concat([first, *others], ignore_index=True) if others else first)
        state.update((keyed.state,))

    def whole(self, frame: pd.DataFrame) -> pd.DataFrame:
        """For `applyInPandas`: all events of a key."""
        return self._results(Keyed(self.plan), frame)

    def _results(self, keyed: Keyed, frame: pd.DataFrame) -> pd.DataFrame:
        frame = self._ordered(frame)
        events = KeyEvents(
            serials=frame[SERIAL].to_numpy(np.int64),
            times=frame[TIME].to_numpy(np.int64),
            numbers={name: frame[NUMBER + name].to_numpy(np.float64) for name in self.plan.numbers},
            fields={name: _values(frame, where) for name, where in self.fields.items()},
        )
        found = keyed.results(events)
        carried = {name: frame[name].to_numpy()[found.chosen] for name in (SERIAL, *self.carried)}
        written = {name: _array(found.columns[name], kind) for name, kind in self.written.items()}
        # One frame of arrays: with many keys, pandas costs more than the computation.
        return pd.DataFrame({**carried, **written}, copy=False)

    def _ordered(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The events in their order: Spark gives those of a micro-batch in any."""
        by = [ORDER, SERIAL] if ORDER in frame.columns else [SERIAL]
        serials = frame[SERIAL].to_numpy()
        if len(by) == 1 and bool(np.all(serials[1:] > serials[:-1])):
            return frame
        # Rows that came of one event, in an order that does not depend on the micro-batch.
        ties = [name for name in (*self.carried, *(NUMBER + n for n in self.plan.numbers)) if name not in by]
        texts = frame[ties].astype(str).agg("\0".join, axis=1) if frame.duplicated(by).any() else None
        if texts is None:
            return frame.sort_values(by, kind="stable", ignore_index=True)
        return frame.assign(ties=texts).sort_values([*by, "ties"], ignore_index=True).drop(columns="ties")


def _array(values: Sequence[Any], kind: str) -> np.ndarray:
    return np.array(values, np.float64 if kind == "double" else object)


def _values(frame: pd.DataFrame, where: FieldColumn) -> list[Any]:
    """The values of a field, in Python's types; None where it is null."""
    column = frame[where.column]
    missing = column.isna() if where.is_null is None else frame[where.is_null]
    decode = _DECODED.get(where.type, lambda value: value)
    return [
        None if is_missing else decode(value)
        for value, is_missing in zip(column.tolist(), missing.tolist(), strict=True)
    ]
