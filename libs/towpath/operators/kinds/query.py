"""The `query` operator: answers of queries, from the panes that a window keeps of their streams."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from towpath.contracts.fields import FieldType
from towpath.contracts.operators import Query
from towpath.operators.kind import OperatorKind, Schema, register
from towpath.operators.kinds.window import BOUNDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.job_events import JobEvents
    from towpath.queries.planning import SharedPlan


def compile_query(operator: Query, events: JobEvents) -> DataFrame:
    """The answers whose moments have come."""
    from towpath.operators.query_answers import answers_of

    return answers_of(events, plan_of(operator), reads(operator))


def plan_of(operator: Query) -> SharedPlan:
    """Return the plan of an operator's queries. Raises `TowpathError` with the place in the text."""
    return _plan(operator.text, tuple(sorted(operator.filled.items())))


@lru_cache(maxsize=64)
def _plan(text: str, filled: tuple[tuple[str, str], ...]) -> SharedPlan:
    """Return the plan of a text, which is asked for whenever its job is looked at."""
    from towpath.queries.checking import check
    from towpath.queries.parsing import parse
    from towpath.queries.planning import shared_plan

    asked = check(parse(text), dict(filled))
    return shared_plan(asked, dict.fromkeys(asked.sources, ()))


def reads(operator: Query) -> dict[str, FieldType]:
    """The columns of panes that the queries need."""
    from towpath.queries.program import Part

    plan = plan_of(operator)
    types = {Part.COUNT: FieldType.LONG, Part.SERIES: FieldType.STRING}
    return {
        **dict.fromkeys(BOUNDS, FieldType.TIMESTAMP),
        **dict.fromkeys(plan.keys, FieldType.STRING),
        **{kept.name: types.get(kept.part, FieldType.DOUBLE) for kept in plan.kept},
    }


def writes(operator: Query) -> Schema:
    """The fields of answers. A value may be a number or a list."""
    queries = plan_of(operator).program.queries
    by = {key.name: FieldType(key.type) for query in queries for key in query.by}
    bounds = dict.fromkeys(BOUNDS, FieldType.TIMESTAMP)
    estimated = any(query.options.is_estimated for query in queries)
    about = dict.fromkeys(("low", "high", "confidence", "sampled"), FieldType.DOUBLE) if estimated else {}
    return {"query": FieldType.STRING, "value": None, **about, **by, **bounds}


def has_one_group(operator: Query) -> bool:
    """True if all queries share one group, which sees every punctuation."""
    from towpath.queries.sharing import shared_keys

    return not any(shared.keys for shared in shared_keys(plan_of(operator).program))


def state(operator: Query) -> dict[str, Any]:
    """No query: those that stay as they are keep what they know, and others begin with nothing."""
    return {"kind": operator.kind}


QUERY = register(
    OperatorKind(
        model=Query,
        compile=compile_query,
        reads=reads,
        writes=writes,
        rejects=lambda operator: True,
        state=state,
        watermarked=lambda operator: True,
        needs_no_empty_batch=has_one_group,
    )
)
