"""Check Spark SQL expressions of users one by one, so that an error names its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.spark_expressions import ALLOWED
from towpath.operators.columns import first_line
from towpath.operators.parsed_expressions import parsed_refusal
from towpath.streams.reading import INPUT, SERIAL, STORED_AT

_ANSI = "spark.sql.ansi.enabled"

_MOMENT = re.compile(r"cast\(\s*(now|today|tomorrow|yesterday)\b[^()]* as (date|timestamp)", re.I)
"""A text that Spark replaces by the time at which it reads it."""


@contextmanager
def null_on_failure(spark: SparkSession) -> Iterator[None]:
    """Let expressions that are compiled inside the block be null for an event on which they fail.

    Examples are a division by zero and a bad cast. In ANSI mode, Spark's default, one such event would end
    the query, and again after each restart. Spark fixes the mode when it analyses the expression.
    """
    before = spark.conf.get(_ANSI)
    spark.conf.set(_ANSI, "false")
    try:
        yield
    finally:
        spark.conf.set(_ANSI, str(before))


def condition(rows: DataFrame, text: str, place: str) -> Column:
    """The expression, which must be boolean. Raises `TowpathError` for field `place`."""
    checked = _checked(rows, text, place)
    if checked != "boolean":
        raise _mismatch(f"a condition is boolean, this is {checked}", place, text, "a boolean expression")
    return F.expr(text)


def value(rows: DataFrame, text: str, place: str) -> Column:
    """The expression. Raises `TowpathError` for field `place`."""
    _checked(rows, text, place)
    return F.expr(text)


def _checked(rows: DataFrame, text: str, place: str) -> str:
    """The type of the expression, which must be a function of one event that always gives the same value."""
    visible = [name for name in rows.columns if " " not in name]
    try:
        refused = parsed_refusal(rows.sparkSession, text, rows.columns)
        if refused is not None and refused.is_field_unknown:
            raise _mismatch(refused.message, place, text, visible)
        if refused is not None:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED, refused.message, field=place, value=text, allowed=ALLOWED
            )
        analysed = rows.select(F.expr(text).alias("value"))
        if _MOMENT.search(analysed._jdf.queryExecution().analyzed().toString()):  # pyright: ignore
            raise _mismatch("compares with the time of reading", place, text, "times such as '2026-01-31'")
        return analysed.dtypes[0][1]
    except (AnalysisException, PySparkException) as error:
        raise _mismatch(first_line(error), place, text, visible) from error


def _mismatch(message: str, place: str, text: str, allowed: str | list[str]) -> TowpathError:
    return TowpathError(ErrorCode.SCHEMA_MISMATCH, message, field=place, value=text, allowed=allowed)


def check_names(names: list[str], place: str) -> None:
    """Raise `TowpathError` if two names differ only in case, because Spark cannot tell them apart."""
    seen = {name: name for name in (SERIAL, INPUT, STORED_AT)}
    for name in names:
        other = seen.get(name.lower())
        if other is not None:
            raise _mismatch(f"differs from {other!r} in case only", place, name, "names distinct in any case")
        seen[name.lower()] = name
