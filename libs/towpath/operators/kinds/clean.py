"""The `clean` operator: keep events that follow the rules, and reject the others with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.contracts.operators import Clean, FieldType
from towpath.operators.kind import OperatorKind, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.job_events import JobEvents


def compile_clean(operator: Clean, events: JobEvents) -> DataFrame:
    """The events that break no rule."""
    from pyspark.sql import functions as F

    from towpath.operators.columns import all_of, named, union
    from towpath.operators.results import results_of
    from towpath.operators.rules import broken_rule, check_patterns
    from towpath.streams.reading import REASON

    rows = union(events.judged(declared(operator)))
    check_patterns(rows.sparkSession, operator.fields)
    reason = F.coalesce(named(REASON), broken_rule(operator.fields))
    good = events.accepted(rows.withColumn(REASON, reason))
    identity = None
    if operator.identity:
        parts = [F.col(name) for name in operator.identity]
        # An event that lacks a part of its identity does not repeat another that lacks it.
        identity = F.when(all_of(part.isNotNull() for part in parts), F.struct(*parts))
    return results_of(good, [F.col(name) for name in operator.fields], identity=identity)


def declared(operator: Clean) -> dict[str, FieldType]:
    """The type of each field that has a rule."""
    return {name: rule.type for name, rule in operator.fields.items()}


CLEAN = register(
    OperatorKind(
        model=Clean,
        compile=compile_clean,
        reads=lambda operator: {name: rule.type for name, rule in operator.fields.items() if rule.required},
        may_read=declared,
        writes=lambda operator: {**declared(operator)},
        rejects=lambda operator: True,
    )
)
