"""Compute groups of rows in Python, with a state for each that Spark keeps as one binary column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import StructType

from towpath.operators.columns import named

_STATE = "state binary"


class Groups(Protocol):
    """The two functions that Spark calls, in its workers."""

    def stateful(
        self, key: Sequence[Any], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Return the results of a group's rows in a micro-batch, and update its state."""
        ...

    def whole(self, key: Sequence[Any], frame: pd.DataFrame) -> pd.DataFrame:
        """Return the results of all rows of a group at once."""
        ...


def computed(
    rows: DataFrame,
    keys: Sequence[str],
    groups: Groups,
    schema: StructType | str,
    timeout: str = GroupStateTimeout.NoTimeout,
) -> DataFrame:
    """The results of all groups. Spark has no state outside a stream: there all rows come at once."""
    grouped = rows.groupBy(*map(named, keys))

    # Functions of their own, because Spark counts the parameters of methods with `self`.
    def whole(key: Any, frame: Any) -> Any:
        return groups.whole(key, frame)

    def stateful(key: Any, frames: Any, state: Any) -> Any:
        return groups.stateful(key, frames, state)

    if not rows.isStreaming:
        return grouped.applyInPandas(whole, schema)
    return grouped.applyInPandasWithState(stateful, schema, _STATE, "append", timeout)
