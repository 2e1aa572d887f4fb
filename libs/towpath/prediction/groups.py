"""The function that Spark calls with the events of a key in a micro-batch, packed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from towpath.prediction.keyed import Keyed, KeyEvents
from towpath.prediction.packing import PACKED, packed, unpacked
from towpath.prediction.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

ORDER, NUMBER = "order", "number "
"""Columns of the rows beside those of the events: what comes before the serial number in the order of events;
the prefix of a number's column."""

SERIAL = "serial"

_WHOLE_NUMBERS = {"long": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}
_TYPES = {"string": pa.string(), "boolean": pa.bool_()}
_LARGEST = 2.0**63


@dataclass(frozen=True)
class KeyGroups:
    """Computes the results of keys. Its methods are what Spark calls."""

    plan: Plan
    time: str
    """The column with the time of an event."""
    fields: Sequence[str]
    """Columns that are fields of the event."""
    written: Mapping[str, str]
    """Fields of results beside these, with their types."""
    values: str
    """The column of results with all these fields."""
    carried: Mapping[str, str]
    """Other columns of results → those of their events."""

    def stateful(
        self, key: Sequence[Any], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """For `applyInPandasWithState`: the events of a micro-batch, with the key's state."""
        keyed = Keyed(self.plan, bytes(state.get[0]) if state.exists else None)
        results = self._results(keyed, unpacked(value for frame in frames for value in frame[PACKED]))
        state.update((keyed.state,))
        if results.num_rows:
            yield pd.DataFrame({PACKED: [packed(results)]})

    def whole(self, key: Sequence[Any], frame: pd.DataFrame) -> pd.DataFrame:
        """For `applyInPandas`: all events of a key."""
        return pd.DataFrame({PACKED: [packed(self._results(Keyed(self.plan), unpacked(frame[PACKED])))]})

    def _results(self, keyed: Keyed, rows: pa.Table) -> pa.Table:
        rows = _ordered(rows)
        numbers = {name: rows[NUMBER + name].to_numpy() for name in self.plan.numbers}
        events = KeyEvents(
            serials=rows[SERIAL].to_numpy(),
            times=rows[self.time].cast(pa.int64()).to_numpy(),
            numbers=numbers,
            fields={name: _values(rows[name]) for name in self.fields if self.plan.kind.takes_all},
        )
        found = keyed.results(events)
        if len(found.chosen) < rows.num_rows:
            rows = rows.take(found.chosen)
        values = {name: rows[name].combine_chunks() for name in self.fields}
        values |= {name: _column(found.columns[name], kind) for name, kind in self.written.items()}
        columns = {result: rows[name] for result, name in self.carried.items()}
        columns[self.values] = pa.StructArray.from_arrays([*values.values()], names=[*values])
        return pa.table(columns)


def _ordered(rows: pa.Table) -> pa.Table:
    """The events in their order: Spark gives those of a micro-batch in any."""
    by = [name for name in (ORDER, SERIAL) if name in rows.column_names]
    places = [rows[name].to_numpy() for name in by]
    if len(by) == 1 and bool(np.all(places[0][1:] > places[0][:-1])):
        return rows
    order = np.lexsort(places[::-1])
    if len({*zip(*(place.tolist() for place in places), strict=True)}) < rows.num_rows:
        # Rows that came of one event, in an order that does not depend on the micro-batch.
        ties = [str(row) for row in rows.drop_columns(by).to_pylist()]
        order = sorted(range(rows.num_rows), key=lambda n: (*(place[n] for place in places), ties[n]))
    return rows.take(order)


def _column(values: Sequence[Any], kind: str) -> pa.Array:
    """A computed column in its type. Numbers that JSON cannot write are null."""
    if kind in _TYPES:
        return pa.array(values, _TYPES[kind])
    numbers = np.array(values, np.float64)
    with np.errstate(invalid="ignore"):
        is_null = ~(np.abs(numbers) < (_LARGEST if kind in _WHOLE_NUMBERS else np.inf))
    if kind not in _WHOLE_NUMBERS:
        return pa.array(numbers, mask=is_null)
    whole = np.where(is_null, 0, numbers).astype(np.int64)
    return pa.array(whole, mask=is_null).cast(_WHOLE_NUMBERS[kind])


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a field, in Python's types; None where it is null, or no number."""
    if pa.types.is_timestamp(column.type):
        times = column.cast(pa.int64()).to_pylist()
        return [None if time is None else datetime.fromtimestamp(time / 1e6, UTC) for time in times]
    return [None if value != value else value for value in column.to_pylist()]
