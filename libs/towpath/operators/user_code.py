"""Give events to the user's function, and make results of what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from towpath.contracts.operators import Python
from towpath.operators.code_loading import loaded_entry, no_entry
from towpath.operators.columns import first_line, named, union
from towpath.operators.results import results_of
from towpath.operators.time_limit import within
from towpath.streams.reading import INPUT, SERIAL, STORED_AT, VALUES

VALUE = "value"
"""The event's JSON object, for functions that declare no fields."""

CALL_S = 25.0
"""The time limit of a function, which only has to describe a plan: that takes milliseconds."""

_WINDOW = "window"
_NOT_VALUES = frozenset({SERIAL, INPUT, STORED_AT, _WINDOW})


def undeclared(whole: DataFrame) -> DataFrame:
    """The events of `JobEvents.whole`, as a function without declared fields sees them."""
    return whole.select(SERIAL, INPUT, STORED_AT, named(VALUES).alias(VALUE))


def made_by(frames: list[DataFrame], operator: Python) -> DataFrame:
    """The results of the user's function over the events of all inputs."""
    events = union([rows.select(*_visible(operator)) for rows in frames])
    with loaded_entry(events.sparkSession.sparkContext, operator) as function:
        made = _called(function, events, operator)
    complete = _completed(made, operator, several_inputs=len(frames) > 1)
    bounds = F.struct(F.col(f"{_WINDOW}.start"), F.col(f"{_WINDOW}.end")) if _WINDOW in made.columns else None
    identity = F.struct(*operator.identity) if operator.identity else None
    names = [name for name in made.columns if name not in _NOT_VALUES]
    if not operator.fields and names == [VALUE] and dict(made.dtypes)[VALUE] == "string":
        return results_of(complete, own_text=F.col(VALUE), window=bounds, identity=identity)
    values = [F.col(f"`{name}`") for name in names]
    return results_of(complete, values, window=bounds, identity=identity)


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


def _completed(made: DataFrame, operator: Python, *, several_inputs: bool) -> DataFrame:
    """The result with `serial` and `stored_at`. They may be missing if there is an identity."""
    needed = operator.identity or [SERIAL, STORED_AT]
    if several_inputs and not operator.identity:
        needed = [*needed, INPUT]
    missing = [name for name in needed if name not in made.columns]
    if missing:
        raise no_entry(f"its result lacks {', '.join(missing)}; it has {', '.join(made.columns)}", operator)
    excuses = {SERIAL: F.lit(0), STORED_AT: F.current_timestamp()}
    for name, excuse in excuses.items():
        if name not in made.columns:
            made = made.withColumn(name, excuse)
    return made
