"""Take rejected events out of a plan, and tell of them and of the steps of a chain beside its results.

A branch of the plan for them would double it, and Spark would read the source twice. So they are observed on
their way: an observation is a value that Spark computes while the rows pass, and hands over at the end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from towpath.operators.columns import named
from towpath.streams.encoding import RejectedEvent
from towpath.streams.reading import INPUT, REASON, SERIAL, STORED_AT, TEXT

_OBSERVED = "step "
"""Beginning of an observation's name. The step's number follows, and that of its branch."""
_USED = "columns "
_REJECTED, _COUNT = "rejected", "count"


def without_rejected(rows: DataFrame, *, step: int = 0, branch: int = 0, derived: bool = False) -> DataFrame:
    """The rows that have no reason: those that the operator, or a step of a chain, computes on.

    Rows without a column of reasons are only counted.
    `branch` tells frames of one step apart. `derived`: the rows are no events, but were made of them.
    """
    # Rows with negative serial numbers are recalled for their times: an earlier run has told of them.
    is_new = F.col(SERIAL) >= 0
    name, count = f"{_OBSERVED}{step} {branch}", F.count(F.when(is_new, 1)).alias(_COUNT)
    if REASON not in rows.columns:
        return rows.observe(name, count)
    stored_at = F.unix_micros(F.col(STORED_AT)).alias(STORED_AT)
    own = [named(REASON).alias("reason"), named(TEXT).alias("text"), F.lit(step).alias("step")]
    # A window over several inputs is of none of them.
    source = F.coalesce(F.col(INPUT), F.lit(0)).alias(INPUT)
    event = F.struct(SERIAL, source, stored_at, *own, F.lit(derived).alias("derived"))
    events = F.collect_list(F.when(named(REASON).isNotNull() & is_new, event)).alias(_REJECTED)
    return rows.observe(name, events, count).where(named(REASON).isNull()).drop(REASON)


def with_all_columns(rows: DataFrame, step: int, branch: int) -> DataFrame:
    """The rows, of which Spark computes all columns, also those that `step` does not use.

    An observation uses them. State is then laid out in the same way, whatever reads its results.
    """
    used = F.first(F.struct(*map(named, rows.columns))).isNull()
    return rows.observe(f"{_USED}{step} {branch}", used.alias("none"))


@dataclass(frozen=True)
class Observed:
    """All that a plan told beside its results."""

    rejected: list[RejectedEvent]
    counts: dict[int, int]
    """Step → events, or results of the step before, that reached it."""


def observed(execution: Any) -> Observed:
    """Return what a plan observed. `execution` is Spark's `QueryExecution`, which must have ended."""
    metrics = execution.observedMetrics()
    names = metrics.keySet().toSeq()
    # One string for each across the bridge, instead of an object for each event.
    told = {(name := names.apply(n)): json.loads(metrics.apply(name).json()) for n in range(names.size())}
    rejected = [event for each in told.values() for event in each.get(_REJECTED) or []]
    return Observed([RejectedEvent(**event) for event in rejected], counts_of(told))


def counts_of(observations: Mapping[str, Mapping[str, Any]]) -> dict[int, int]:
    """Return step → events that reached it, from a micro-batch's observations by name."""
    counts: Counter[int] = Counter()
    for name, each in observations.items():
        if name.startswith(_OBSERVED):
            step, _branch = name.removeprefix(_OBSERVED).split()
            counts[int(step)] += each.get(_COUNT) or 0
    return dict(sorted(counts.items()))
