"""Small column expressions that every part of a compiled plan shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from towpath.streams.reading import SERIAL


def named(column: str) -> Column:
    """A column whose name has a space in it."""
    return F.col(f"`{column}`")


def all_of(conditions: Iterable[Column]) -> Column:
    """The conjunction; true if there are no conditions."""
    result = F.lit(True)
    for condition in conditions:
        result = result & condition
    return result


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all frames; each has the same columns."""
    return reduce(DataFrame.unionByName, frames)


def first_line(error: Exception) -> str:
    """The message of a Spark exception, without the plan and stack that follow."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def is_new(time: Column) -> Column:
    """True for rows that count, behind a watermark on `time`.

    Rows with negative serial numbers count only for their times: the source recalls them after a start. Rows
    of user code without one have 0. The condition names the time, because Spark would otherwise evaluate it
    before the watermark has seen them.
    """
    return F.col(SERIAL) + F.coalesce(F.unix_micros(time) * 0, F.lit(0)) >= 0
