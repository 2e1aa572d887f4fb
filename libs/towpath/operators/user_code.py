"""Give events to the user's function, and make results of what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from towpath.contracts.operators import Python
from towpath.operators.code_loading import loaded_entry, no_entry
from towpath.operators.columns import (
    INPUT,
    REASON,
    SERIAL,
    STORED_AT,
    TEXT,
    first_line,
    json_array,
    json_object,
    named,
    read_once,
    union,
)
from towpath.operators.json_events import wrapped
from towpath.operators.passage import VALUES, is_one_object
from towpath.operators.publication import Publication, ResultParts
from towpath.operators.time_limit import within

VALUE = "value"
"""The event's JSON object, for functions that declare no fields."""

CALL_S = 25.0
"""The time limit of a function, which only has to describe a plan: that takes milliseconds."""

_WINDOW = "window"
_NOT_VALUES = frozenset({SERIAL, INPUT, STORED_AT, _WINDOW})


def undeclared(passed: DataFrame) -> DataFrame:
    """The events of `passage.pass_on`, as a function without declared fields sees them."""
    return passed.select(SERIAL, INPUT, STORED_AT, named(VALUES).alias(VALUE), named(TEXT), named(REASON))


def results_of(parsed: list[DataFrame], operator: Python, publication: Publication) -> DataFrame:
    """Results of the user's function over the good rows, and the rejected events beside them."""
    judged = [read_once(rows) for rows in parsed]
    good = [rows.where(named(REASON).isNull()).select(*_visible(operator)) for rows in judged]
    events = union(good)
    with loaded_entry(events.sparkSession.sparkContext, operator) as function:
        made = _called(function, events, operator)
    complete = _completed(made, operator, publication)
    if operator.identity:
        message_id = publication.identities.of_values(json_array([F.col(name) for name in operator.identity]))
    else:
        message_id = publication.event_id()
    results = publication.of_results(complete, message_id, _parts(made, operator))
    return union([results, *(publication.of_rejected(rows) for rows in judged)])


def _visible(operator: Python) -> list[str]:
    return [*(operator.fields or [VALUE]), SERIAL, INPUT, STORED_AT]


def _called(function: Callable[..., Any], events: DataFrame, operator: Python) -> DataFrame:
    try:
        made = within(CALL_S, lambda: function(events, dict(operator.parameters)))
    except TimeoutError as error:
        # Not a refusal: on a busy machine the same code may be in time when it is tried again.
        raise RuntimeError(f"{operator.entry} {error}") from error
    except (Exception, SystemExit) as error:  # User code may raise anything.
        told = first_line(error) if isinstance(error, Exception) else error
        raise no_entry(f"{type(error).__name__}: {told}", operator) from error
    if not isinstance(made, DataFrame):
        raise no_entry(f"returns {type(made).__name__}, not a DataFrame", operator)
    return made


def _completed(made: DataFrame, operator: Python, publication: Publication) -> DataFrame:
    """The result with `serial`, `input` and `stored_at`. They may be missing if there is an identity."""
    needed = operator.identity or [SERIAL, STORED_AT]
    if publication.has_several_inputs and not operator.identity:
        needed = [*needed, INPUT]
    missing = [name for name in needed if name not in made.columns]
    if missing:
        raise no_entry(f"its result lacks {', '.join(missing)}; it has {', '.join(made.columns)}", operator)
    excuses = {SERIAL: F.lit(0), INPUT: F.lit(0), STORED_AT: F.current_timestamp()}
    for name, excuse in excuses.items():
        if name not in made.columns:
            made = made.withColumn(name, excuse)
    return made


def _parts(made: DataFrame, operator: Python) -> ResultParts:
    window = None
    if _WINDOW in made.columns:
        bounds = [F.col(f"{_WINDOW}.{name}").alias(name) for name in ("start", "end")]
        window = json_object(bounds)
    return ResultParts(
        values=_values(made, operator),
        serial=F.col(SERIAL),
        stored_at=F.col(STORED_AT),
        input=F.col(INPUT) if INPUT in made.columns else None,
        window=window,
    )


def _values(made: DataFrame, operator: Python) -> Column:
    """JSON of the function's columns. A JSON object that the function made itself stays as it is."""
    names = [name for name in made.columns if name not in _NOT_VALUES]
    columns = json_object([F.col(f"`{name}`") for name in names])
    if operator.fields or names != [VALUE] or dict(made.dtypes)[VALUE] != "string":
        return columns
    text = F.trim(F.col(VALUE), F.lit(" \t\r\n"))
    is_object = is_one_object(text) & F.try_parse_json(wrapped(text)).isNotNull()
    return F.when(is_object, text).otherwise(columns)
