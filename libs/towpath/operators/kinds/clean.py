"""The `clean` operator: keep events that follow the rules, and reject the others with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.contracts.operators import Clean, FieldType
from towpath.operators.kind import OperatorKind, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.compilation import JobEvents


def compile_clean(operator: Clean, events: JobEvents) -> DataFrame:
    """The events that break no rule, and the rejected ones."""
    from pyspark.sql import functions as F

    from towpath.operators.columns import REASON, all_of, json_array, named, union
    from towpath.operators.rules import broken_rule, check_patterns

    rows = union(events.typed(declared(operator)))
    check_patterns(rows.sparkSession, operator.fields)
    judged = rows.withColumn(REASON, F.coalesce(named(REASON), broken_rule(operator.fields)))
    publication = events.publication
    message_id = publication.event_id()
    if operator.identity:
        parts = [F.col(name) for name in operator.identity]
        # An event that lacks a part of its identity does not repeat another that lacks it.
        whole = all_of(part.isNotNull() for part in parts)
        identity = publication.identities.of_values(json_array(parts))
        message_id = F.when(whole, identity).otherwise(message_id)
    return publication.of_values(judged, [F.col(name) for name in operator.fields], message_id)


def declared(operator: Clean) -> dict[str, FieldType]:
    """The type of each field that has a rule."""
    return {name: rule.type for name, rule in operator.fields.items()}


CLEAN = register(
    OperatorKind(
        model=Clean,
        compile=compile_clean,
        reads=lambda operator: {name: rule.type for name, rule in operator.fields.items() if rule.required},
        writes=lambda operator: {**declared(operator)},
    )
)
