"""The `forward` operator: pass every event on unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.contracts.operators import Forward, Merge
from towpath.operators.kind import OperatorKind, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.compilation import JobEvents


def compile_passage(operator: Forward | Merge, events: JobEvents) -> DataFrame:
    """The events of all inputs with their JSON as it came, and the rejected ones."""
    from towpath.operators.columns import union
    from towpath.operators.passage import passed_parts

    publication = events.publication
    return publication.of_events(union(events.unchanged()), publication.event_id(), passed_parts())


FORWARD = register(
    OperatorKind(model=Forward, compile=compile_passage, reads=lambda operator: {}, passes_on=True)
)
