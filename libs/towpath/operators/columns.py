"""Small column expressions that every part of a compiled plan shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


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
