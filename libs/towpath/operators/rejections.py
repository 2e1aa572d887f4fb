"""Take rejected events out of a plan, and tell of them beside its results.

A branch of the plan for them would double it, and Spark would read the source twice. So they are observed on
their way: an observation is a value that Spark computes while the rows pass, and hands over at the end.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from towpath.operators.columns import named
from towpath.streams.encoding import RejectedEvent
from towpath.streams.reading import INPUT, REASON, SERIAL, STORED_AT, TEXT

_OBSERVED = "rejected events "
"""Beginning of an observation's name; a number follows, because no two may have the same."""
_EVENTS = "events"


def without_rejected(rows: DataFrame, number: int = 0) -> DataFrame:
    """The rows that have no reason. `number` tells observations of one plan apart."""
    # Rows with negative serial numbers are recalled for their times: an earlier run has told of them.
    is_rejected = named(REASON).isNotNull() & (F.col(SERIAL) > 0)
    stored_at = F.unix_micros(F.col(STORED_AT)).alias(STORED_AT)
    event = F.struct(SERIAL, INPUT, stored_at, named(REASON).alias("reason"), named(TEXT).alias("text"))
    events = F.collect_list(F.when(is_rejected, event)).alias(_EVENTS)
    return rows.observe(f"{_OBSERVED}{number}", events).where(named(REASON).isNull()).drop(REASON, TEXT)


def rejections(execution: Any) -> list[RejectedEvent]:
    """The events that a plan rejected. `execution` is Spark's `QueryExecution`, which must have ended."""
    observed = execution.observedMetrics()
    names = observed.keySet().toSeq()
    found = []
    for n in range(names.size()):
        if names.apply(n).startswith(_OBSERVED):
            # One string across the bridge, instead of an object for each event.
            found += json.loads(observed.apply(names.apply(n)).json()).get(_EVENTS) or []
    return [RejectedEvent(**event) for event in found]
