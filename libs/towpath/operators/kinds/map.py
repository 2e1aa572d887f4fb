"""The `map` operator: compute new fields from old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.contracts.operators import Map
from towpath.operators.kind import OperatorKind, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.job_events import JobEvents


def compile_map(operator: Map, events: JobEvents) -> DataFrame:
    """The new fields of each event."""
    from towpath.operators.columns import union
    from towpath.operators.expressions import null_on_failure, value
    from towpath.operators.results import results_of

    rows = union(events.typed(operator.fields))
    with null_on_failure(rows.sparkSession):
        selected = [
            value(rows, text, f"operator.select.{name}").alias(name) for name, text in operator.select.items()
        ]
        return results_of(rows, selected)


MAP = register(
    OperatorKind(
        model=Map,
        compile=compile_map,
        reads=lambda operator: operator.fields,
        # Spark finds the type of an expression when it compiles the plan.
        writes=lambda operator: dict.fromkeys(operator.select),
    )
)
