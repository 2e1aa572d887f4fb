"""Write what is computed of single events as Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from towpath.queries.meaning import SITE, FieldFilter, Source
from towpath.queries.tree import (
    Argument,
    Arithmetic,
    Both,
    Call,
    Comparison,
    Condition,
    Either,
    Expression,
    Grouping,
    Membership,
    Metric,
    Negative,
    Number,
)
from towpath.streams.reading import WEIGHT

SAMPLING_STEPS = 1_000_000
"""An event's share is its serial number's hash, in millionths.

The same as `streams.sampling.STEPS`, which only engines can import.
"""

_BASE_32 = "0123456789bcdefghjkmnpqrstuvwxyz"


def argument_sql(argument: Argument, where: str | None, sample: float | None) -> str:
    """Return an argument's value; null for events that have none.

    `where` holds for events of its streams; None if all events are.
    """
    conditions = [] if where is None else [where]
    if argument.where is not None:
        conditions.append(condition_sql(argument.where))
    if sample is not None:
        conditions.append(f"pmod(xxhash64(serial), {SAMPLING_STEPS}) < {sample * SAMPLING_STEPS!r}")
    value = value_sql(argument.value)
    return f"case when {' and '.join(conditions)} then {value} end" if conditions else value


def weighted_sql(value: str, doubts: int, power: int, *, is_thinned: bool) -> str:
    """Return w · (w - 1)^doubts · value^power; null without a value. The weight w is 1 if all are read."""
    weight = f"`{WEIGHT}`" if is_thinned else "1D"
    factors = [weight, *[f"({weight} - 1D)"] * doubts, *[value] * power]
    product = " * ".join(factors)
    return product if power else f"case when {value} is not null then {product} end"


def streams_sql(sources: Sequence[Source], inputs: Mapping[str, Sequence[int]]) -> str | None:
    """Return which events belong to any of the streams; None if all do.

    `inputs` has the positions of each stream in the job.
    """
    whole = {position for source in sources if not source.filters for position in inputs[source.name]}
    if whole and whole.issuperset(chain.from_iterable(inputs.values())):
        return None
    conditions = dict.fromkeys(_stream_sql(source, inputs[source.name]) for source in sources)
    return "(" + " or ".join(conditions) + ")"


def _stream_sql(source: Source, positions: Sequence[int]) -> str:
    place = f"input in ({', '.join(map(str, positions))})" if positions else "false"
    return "(" + " and ".join([place, *map(_filter_sql, source.filters)]) + ")"


def _filter_sql(each: FieldFilter) -> str:
    if each.value is None:
        return f"{_field(each.field)} is not null"
    if not isinstance(each.value, str):
        return f"{_field(each.field)} = {_number(each.value)}"
    if each.is_prefix:
        return f"startswith({_field(each.field)}, {_text(each.value)})"
    return f"{_field(each.field)} = {_text(each.value)}"


def value_sql(expression: Expression) -> str:
    """Return a value of an event."""
    match expression:
        case Number(value):
            return _number(value)
        case Metric(name):
            return _field(name)
        case Negative(value):
            return f"(- {value_sql(value)})"
        case Arithmetic(operator, left, right):
            return f"({value_sql(left)} {operator} {value_sql(right)})"
        case Call("SQR", arguments=(value,)):
            return f"({value_sql(value)} * {value_sql(value)})"
        case Call("SQRT", arguments=(value,)):
            # Spark's root of a negative number is NaN, which is larger than any number.
            return f"sqrt(case when {value_sql(value)} >= 0 then {value_sql(value)} end)"
        case Call("ABS", arguments=(value,)):
            return f"abs({value_sql(value)})"
    raise AssertionError(f"no value of an event: {expression}")


def condition_sql(condition: Condition) -> str:
    """Return a condition on an event, with everything that it compares."""
    match condition:
        case Both(left, right):
            return f"({condition_sql(left)} and {condition_sql(right)})"
        case Either(left, right):
            return f"({condition_sql(left)} or {condition_sql(right)})"
        case Membership(left, values):
            assert left is not None
            listed = ", ".join(_text(one) if isinstance(one, str) else _number(one) for one in values)
            return f"({value_sql(left)} in ({listed}))"
        case Comparison(left, operator, right):
            assert left is not None
            compared = _text(right) if isinstance(right, str) else value_sql(right)
            return f"({value_sql(left)} {'=' if operator == '==' else operator} {compared})"


def grouping_sql(grouping: Grouping, sites: Sequence[str]) -> str:
    """Return the value that an event has for a `BY`: text behind `=`, or an empty text if it has none.

    `sites` are those of the job's inputs.
    """
    value = f"cast({_field(grouping.fields[0])} as string)"
    if grouping.fields == (SITE,):
        cases = " ".join(f"when {position} then {_text(site)}" for position, site in enumerate(sites))
        value = f"case input {cases} end" if sites else "null"
    if grouping.geohash is not None:
        latitude, longitude = map(_field, grouping.fields)
        value = _geohash(latitude, longitude, grouping.geohash)
    return f"coalesce(concat('=', {value}), '')"


def _geohash(latitude: str, longitude: str, characters: int) -> str:
    """Return the geohash: bits of longitude and latitude in turn, five for a character."""
    bits = 5 * characters
    cells = {
        0: _cell(longitude, 180, (bits + 1) // 2),
        1: _cell(latitude, 90, bits // 2),
    }
    widths = {0: (bits + 1) // 2, 1: bits // 2}
    letters = []
    for letter in range(characters):
        parts = []
        for at in range(5):
            place = 5 * letter + at
            axis, number = place % 2, place // 2
            bit = f"(shiftright({cells[axis]}, {widths[axis] - 1 - number}) & 1)"
            parts.append(f"{bit} * {16 >> at}")
        letters.append(f"substr('{_BASE_32}', cast(1 + {' + '.join(parts)} as int), 1)")
    inside = f"abs({latitude}) <= 90 and abs({longitude}) <= 180"
    return f"case when {inside} then concat({', '.join(letters)}) end"


def _cell(degrees: str, half: int, bits: int) -> str:
    cells = 2**bits
    return f"least(cast(floor(({degrees} + {half}D) / {2 * half}D * {cells}D) as bigint), {cells - 1}L)"


def _field(name: str) -> str:
    return f"`{name}`"


def _number(value: float) -> str:
    return f"{value!r}D"


def _text(value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"
