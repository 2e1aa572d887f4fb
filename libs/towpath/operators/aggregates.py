"""Compute aggregates that depend neither on the order of events nor on how batches cut them, but for `total`.

Adding doubles is not associative: two runs of one job would differ in the last digits. Sums are therefore
kept as integers on fixed grids, which Spark adds exactly. The method is that of Demmel and Nguyen, "Parallel
Reproducible Summation" (IEEE Transactions on Computers, 2015).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.operators import Aggregate, AggregateFunction, FieldType, ProcessingWindow, Window
from towpath.operators.columns import named
from towpath.streams.reading import INPUT, SERIAL

TIME = "event time"
"""The column that places an event in a window."""

Aggregating = Window | ProcessingWindow
"""Operators that compute aggregates per key."""

_LANE_BITS = 30
_GRIDS = (30, 0, -30, -60, -90)
"""Exponents of the grids. Each lane holds 30 bits, so the 64-bit sum has room for 2^33 events. Sums are exact
for numbers below 2^60 that have no bit below 2^-90. Other numbers are added as doubles."""
_LARGEST = 2.0**60
_HALF_OF_LONG = 2**32
_STDDEV_DIGITS = 9

_NUMERIC = frozenset({FieldType.LONG, FieldType.DOUBLE})
_NEEDS_NUMBERS = frozenset(
    {
        *(AggregateFunction.SUM, AggregateFunction.TOTAL, AggregateFunction.AVG),
        *(AggregateFunction.STDDEV, AggregateFunction.PERCENTILE),
    }
)


def check_aggregates(operator: Aggregating) -> None:
    """Raise `TowpathError` if an aggregate needs numbers and its field has none."""
    for name, aggregate in operator.aggregates.items():
        if aggregate.function is AggregateFunction.SERIES and isinstance(operator, ProcessingWindow):
            raise TowpathError(
                ErrorCode.INVALID,
                "the events of a processing window have no time",
                field=f"operator.aggregates.{name}.function",
                value=aggregate.function,
                allowed=[each for each in AggregateFunction if each is not AggregateFunction.SERIES],
            )
        if aggregate.function not in _NEEDS_NUMBERS or aggregate.field is None:
            continue
        kind = operator.fields[aggregate.field]
        if kind not in _NUMERIC:
            raise TowpathError(
                ErrorCode.SCHEMA_MISMATCH,
                f"{aggregate.function} needs numbers, {aggregate.field!r} is of type {kind}",
                field=f"operator.aggregates.{name}.field",
                value=aggregate.field,
                allowed=[field for field, other in operator.fields.items() if other in _NUMERIC],
            )


@dataclass(frozen=True)
class PartialAggregate:
    """A value that Spark keeps per window and key: a function of one prepared column."""

    function: str
    """SQL, with `{}` where the column stands."""
    argument: Column
    """The prepared column, computed from the columns `of <field>`."""


def partial_aggregates(operator: Aggregating) -> dict[str, PartialAggregate]:
    """All values that Spark keeps per window and key, by column name.

    They are sorted by name, so that the layout of the state does not depend on the order of the spec.
    """
    parts: dict[str, PartialAggregate] = {}
    for aggregate in operator.aggregates.values():
        parts |= _parts(aggregate, operator.fields)
    return dict(sorted(parts.items()))


def _parts(aggregate: Aggregate, fields: dict[str, FieldType]) -> dict[str, PartialAggregate]:
    name = aggregate.field
    if name is None:
        return {}
    column, kind = named(f"of {name}"), fields[name]
    count = {f"count {name}": PartialAggregate("count({})", column)}
    match aggregate.function:
        case AggregateFunction.COUNT:
            return count
        case AggregateFunction.SUM | AggregateFunction.AVG:
            return {**count, **_sum_parts(name, column, kind)}
        case AggregateFunction.TOTAL:
            return {f"total {name}": PartialAggregate("sum({})", column.cast("double"))}
        case AggregateFunction.MIN:
            return {f"min {name}": PartialAggregate("min({})", column)}
        case AggregateFunction.MAX:
            return {f"max {name}": PartialAggregate("max({})", column)}
        case AggregateFunction.STDDEV:
            number = column.cast("double")
            return {
                f"stddev {name}": PartialAggregate("stddev_samp({})", number),
                f"largest {name}": PartialAggregate("max({})", F.abs(number)),
            }
        case AggregateFunction.PERCENTILE:
            function = f"percentile({{}}, {aggregate.q}D)"
            return {f"percentile {name} {aggregate.q}": PartialAggregate(function, column)}
        case AggregateFunction.DISTINCT:
            return {f"distinct {name}": PartialAggregate("collect_set({})", column)}
        case AggregateFunction.SERIES:
            event = F.struct(
                F.unix_micros(named(TIME)).alias("t"),
                F.col(INPUT).alias("i"),
                F.col(SERIAL).alias("s"),
                column.alias("v"),
            )
            return {f"series {name}": PartialAggregate("collect_list({})", F.when(column.isNotNull(), event))}


def value_of(aggregate: Aggregate, fields: dict[str, FieldType]) -> Column:
    """The aggregate's value from the columns of `partial_aggregates` and `count`."""
    name = aggregate.field
    if name is None:
        return F.col("count")
    kind = fields[name]
    match aggregate.function:
        case AggregateFunction.COUNT:
            return named(f"count {name}")
        case AggregateFunction.SUM:
            return F.when(named(f"count {name}") > 0, _total(name, kind))
        case AggregateFunction.AVG:
            count = named(f"count {name}")
            return F.when(count > 0, _total(name, kind).cast("double") / count)
        case AggregateFunction.TOTAL | AggregateFunction.MIN | AggregateFunction.MAX:
            return named(f"{aggregate.function} {name}")
        case AggregateFunction.STDDEV:
            return _rounded(named(f"stddev {name}"), named(f"largest {name}"))
        case AggregateFunction.PERCENTILE:
            return named(f"percentile {name} {aggregate.q}")
        case AggregateFunction.DISTINCT:
            return F.size(named(f"distinct {name}"))
        case AggregateFunction.SERIES:
            return F.to_json(F.array_sort(named(f"series {name}")))


def _sum_parts(name: str, number: Column, kind: FieldType) -> dict[str, PartialAggregate]:
    def summed(column: Column) -> PartialAggregate:
        return PartialAggregate("sum({})", column)

    if kind is FieldType.LONG:
        # Two halves, because a 64-bit sum of 64-bit numbers can overflow.
        high, low = F.shiftright(number, 32), number.bitwiseAND(F.lit(_HALF_OF_LONG - 1))
        return {f"sum {name} high": summed(high), f"sum {name} low": summed(low)}
    inside = F.abs(number) < _LARGEST
    gridded = F.when(inside, number).otherwise(F.when(number.isNotNull(), 0.0))
    parts = {}
    for lane, grid in enumerate(_GRIDS):
        coarser = F.rint(gridded * 2.0 ** -_GRIDS[lane - 1]) * 2.0**_LANE_BITS if lane else F.lit(0.0)
        bits = F.rint(gridded * 2.0**-grid) - coarser
        parts[f"sum {name} lane {lane}"] = summed(bits.cast("bigint"))
    finest = _GRIDS[-1]
    rest = F.when(inside, number - F.rint(gridded * 2.0**-finest) * 2.0**finest).otherwise(number)
    return {**parts, f"sum {name} rest": summed(rest)}


def _total(name: str, kind: FieldType) -> Column:
    if kind is FieldType.LONG:
        high, low = named(f"sum {name} high"), named(f"sum {name} low")
        return high.cast("decimal(20,0)") * F.lit(_HALF_OF_LONG).cast("decimal(10,0)") + low
    total = named(f"sum {name} rest")
    for lane, grid in reversed(list(enumerate(_GRIDS))):
        total = named(f"sum {name} lane {lane}") * F.lit(2.0**grid) + total
    return total


def _rounded(stddev: Column, largest: Column) -> Column:
    """The standard deviation, rounded to nine digits of the largest number.

    The moments that Spark keeps depend on the order of events, by about 1e-16 of the largest number. Two runs
    with rounded values differ only if the true value lies that close to a rounding limit.
    """
    digits = F.lit(_STDDEV_DIGITS) - F.floor(F.log10(largest))
    scale = F.pow(F.lit(10.0), digits.cast("double"))
    # Numbers below 1e-298 have a scale that no double holds.
    return F.when((largest == 0) | (scale == float("inf")), stddev).otherwise(F.rint(stddev * scale) / scale)
