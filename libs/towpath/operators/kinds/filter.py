"""The `filter` operator: keep events for which a condition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.contracts.operators import Filter
from towpath.operators.kind import OperatorKind, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.job_events import JobEvents


def compile_filter(operator: Filter, events: JobEvents) -> DataFrame:
    """The events that the condition holds for."""
    from pyspark.sql import functions as F

    from towpath.operators.columns import union
    from towpath.operators.expressions import condition, null_on_failure
    from towpath.operators.results import results_of

    rows = union(events.typed(operator.fields))
    with null_on_failure(rows.sparkSession):
        kept = rows.where(condition(rows, operator.where, "operator.where"))
        return results_of(kept, [F.col(name) for name in operator.fields])


FILTER = register(
    OperatorKind(
        model=Filter,
        compile=compile_filter,
        reads=lambda operator: operator.fields,
        writes=lambda operator: {**operator.fields},
    )
)
