"""Check Spark SQL expressions of users one by one, so that an error names its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.operators.columns import first_line
from towpath.streams.reading import INPUT, SERIAL, STORED_AT

_ANSI = "spark.sql.ansi.enabled"


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
    """The type of the expression over one event.

    Spark refuses aggregates and generators inside a struct that stands beside a plain column. They are no
    functions of one event: a generator would give several results the same message id.
    """
    visible = [name for name in rows.columns if " " not in name]
    try:
        analysed = rows.select(SERIAL, F.struct(F.expr(text).alias("value")).alias("checked"))
        if "Window [" in analysed._jdf.queryExecution().analyzed().toString():  # pyright: ignore
            raise _mismatch("looks at other events", place, text, visible)
        return analysed.select("checked.value").dtypes[0][1]
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
