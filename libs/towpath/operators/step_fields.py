"""Read the fields of a step's results as the next step of the chain declares them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    FractionalType,
    IntegralType,
    StringType,
    StructType,
    TimestampType,
)

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.operators import FieldType
from towpath.operators.columns import named
from towpath.streams import encoding

_Place = tuple[Column, DataType]


def read_fields(results: DataFrame, fields: dict[str, FieldType]) -> list[Column]:
    """The fields of results under their names, from where another job would read them.

    That is in the values, then in the key, then beside them. Raises `TowpathError` (schema mismatch) for a
    field that is not there, or has another type.
    """
    places = _places(results)
    return [_read(places, name, kind).alias(name) for name, kind in fields.items()]


def _places(results: DataFrame) -> dict[str, list[_Place]]:
    """Field → the columns that it may come from."""
    types = {field.name: field.dataType for field in results.schema}
    places: dict[str, list[_Place]] = {}
    for outer in (encoding.VALUES, encoding.KEY):
        members = types.get(outer)
        if isinstance(members, StructType):
            for member in members:
                column = named(outer)[member.name]
                places.setdefault(member.name, []).append((column, member.dataType))
    bounds = next((name for name in (encoding.CLOSED, encoding.WINDOW) if name in types), None)
    if bounds is not None:
        for end in ("start", "end"):
            places.setdefault(f"window_{end}", []).append((named(bounds)[end], TimestampType()))
    if encoding.COUNT in types:
        places.setdefault("count", []).append((named(encoding.COUNT), types[encoding.COUNT]))
    return places


def _read(places: dict[str, list[_Place]], name: str, asked: FieldType) -> Column:
    found = places.get(name, [])
    fitting = [_as_read(column, asked) for column, kind in found if _fits(_field_type(kind), asked)]
    if fitting:
        return F.coalesce(*fitting) if len(fitting) > 1 else fitting[0]
    written = f"writes {found[0][1].simpleString()}" if found else "does not write it"
    known = {field: _field_type(others[0][1]) for field, others in places.items()}
    raise TowpathError(
        ErrorCode.SCHEMA_MISMATCH,
        f"asks for {name!r} as {asked}, but the step before {written}",
        field=f"operator.fields.{name}",
        value=asked,
        allowed=[f"{field}: {kind or 'another type'}" for field, kind in sorted(known.items())],
    )


def _fits(has: FieldType | None, asked: FieldType) -> bool:
    """Tell if a declared type reads a column: the same, or a whole number as a number."""
    return has == asked or (has, asked) == (FieldType.LONG, FieldType.DOUBLE)


def _field_type(kind: DataType) -> FieldType | None:
    """The declared type that reads a column. None for a column that no declared type reads."""
    match kind:
        case StringType():
            return FieldType.STRING
        case IntegralType():
            return FieldType.LONG
        case FractionalType() | DecimalType():
            return FieldType.DOUBLE
        case BooleanType():
            return FieldType.BOOLEAN
        case TimestampType():
            return FieldType.TIMESTAMP
    return None


def _as_read(column: Column, asked: FieldType) -> Column:
    """The column in the declared type. A number that JSON cannot write is null, as in a published result."""
    if asked is FieldType.DOUBLE:
        number = column.cast("double")
        return F.when(F.abs(number) < float("inf"), number)
    return column.cast("bigint") if asked is FieldType.LONG else column
