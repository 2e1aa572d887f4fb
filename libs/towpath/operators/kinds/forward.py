"""The `forward` operator: pass every event on unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.contracts.operators import Forward, Merge
from towpath.operators.kind import OperatorKind, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.job_events import JobEvents


def compile_passage(operator: Forward | Merge, events: JobEvents) -> DataFrame:
    """The events of all inputs with their JSON as it came."""
    from towpath.operators.columns import named, union
    from towpath.operators.results import results_of
    from towpath.streams.reading import COUNT, KEY, VALUES, WINDOW

    rows = union(events.whole())
    return results_of(rows, named(VALUES), count=named(COUNT), key=named(KEY), window=named(WINDOW))


FORWARD = register(
    OperatorKind(model=Forward, compile=compile_passage, reads=lambda operator: {}, passes_on=True)
)
