"""Take columns apart into ones that pandas keeps exactly, and put them together again.

Pandas has no nulls among whole numbers: a column with some becomes doubles, which lose digits. Times would
depend on zones, and structs become dictionaries. So whole numbers and times travel with a column that tells
where they are null, times as microseconds, and structs by their members.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegralType,
    LongType,
    StructField,
    StructType,
    TimestampType,
)

from towpath.operators.columns import named


@dataclass(frozen=True)
class PlainColumn:
    """A column, taken apart."""

    parts: list[tuple[Column, StructField]]
    """The columns that travel, under the names of their fields."""
    whole: Column
    """The column made of these again."""
    value: str
    """The part with the value; empty for a struct."""
    is_null: str | None
    """The part that tells where the value is null; None if the value itself does."""


def plain_column(column: Column, kind: DataType, name: str, *, nullable: bool = True) -> PlainColumn:
    """Take a column apart. `name` is a prefix that no other column has."""
    flag = f"{name} null"
    flags = [(column.isNull().alias(flag), StructField(flag, BooleanType()))]
    if isinstance(kind, StructType):
        members = [*_members(column, kind, name)]
        made = F.struct(*(part.whole.alias(field.name) for part, field in zip(members, kind, strict=True)))
        parts = [each for part in members for each in part.parts]
        return PlainColumn([*flags, *parts], F.when(~named(flag), made), "", flag)
    if not isinstance(kind, IntegralType | TimestampType):
        return PlainColumn([(column.alias(name), StructField(name, kind))], named(name), name, None)
    number = F.unix_micros(column) if isinstance(kind, TimestampType) else column.cast("bigint")
    whole = F.timestamp_micros(named(name)) if isinstance(kind, TimestampType) else named(name).cast(kind)
    if not nullable:
        return PlainColumn([(number.alias(name), StructField(name, LongType()))], whole, name, None)
    parts = [(F.coalesce(number, F.lit(0)).alias(name), StructField(name, LongType()))]
    return PlainColumn([*parts, *flags], F.when(~named(flag), whole), name, flag)


def _members(column: Column, kind: StructType, name: str) -> Iterator[PlainColumn]:
    for position, field in enumerate(kind):
        yield plain_column(column[field.name], field.dataType, f"{name} {position}", nullable=True)
