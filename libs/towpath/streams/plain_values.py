"""Make of Arrow columns what a JSON encoder takes: null members left out, times in UTC with milliseconds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def plain_values(column: pa.Array, *, exact: bool = False) -> list[Any]:
    """Return the values of a column; times are ISO 8601, in milliseconds.

    Members of a struct that are null are left out. Numbers that JSON cannot write are null: as a text, they
    would not be of their field's type. With `exact`, for ids, they are texts, and times have microseconds.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        return _objects(column, exact=exact)
    if pa.types.is_timestamp(kind):
        return iso_times(column, "us" if exact else "ms")
    if pa.types.is_floating(kind):
        values = column.to_pylist()
        return values if all(map(_is_finite, values)) else [_number(value, exact=exact) for value in values]
    if pa.types.is_map(kind):
        exact_keys = exact or pa.types.is_floating(column.keys.type)
        keys = [
            key if isinstance(key, str) else str(key) for key in plain_values(column.keys, exact=exact_keys)
        ]
        items = list(zip(keys, plain_values(column.items, exact=exact), strict=True))
        return [None if pairs is None else dict(pairs) for pairs in _nested(column, items)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _nested(column, plain_values(column.values, exact=exact))
    if pa.types.is_date(kind):
        return [None if day is None else day.isoformat() for day in column.to_pylist()]
    return column.to_pylist()


def iso_times(times: pa.Array, unit: str = "ms") -> list[str | None]:
    """Return times as ISO 8601; those that have a zone are in UTC."""
    bare = times.cast(pa.timestamp(times.type.unit))
    if unit == "ms" and times.type.unit != "ms":
        bare = pc.floor_temporal(bare, unit="millisecond")  # pyright: ignore[reportAttributeAccessIssue]
    # Arrow writes a time with a space in it, ten times as fast as by a pattern.
    texts = bare.cast(pa.timestamp(unit)).cast(pa.string()).to_pylist()
    zone = "" if times.type.tz is None else "Z"
    return [None if text is None else text.replace(" ", "T") + zone for text in texts]


def members(column: pa.StructArray) -> dict[str, pa.Array]:
    """Return the columns of a struct by name. Where the struct is null, they are, too."""
    return {field.name: values for field, values in zip(column.type, column.flatten(), strict=True)}


def _objects(column: pa.StructArray, *, exact: bool) -> list[Any]:
    columns = members(column)
    names = list(columns)
    plain = [plain_values(values, exact=exact) for values in columns.values()]
    rows = zip(*plain, strict=True)
    if any(None in values for values in plain):
        made: list[Any] = [{n: v for n, v in zip(names, row, strict=True) if v is not None} for row in rows]
    else:
        made = [dict(zip(names, row, strict=True)) for row in rows] or [{} for _ in range(len(column))]
    if not column.null_count:
        return made
    return [m if valid else None for m, valid in zip(made, column.is_valid().to_pylist(), strict=True)]


def _nested(column: Any, flat: list[Any]) -> list[Any]:
    """Cut the values of all lists into lists."""
    bounds = itertools.pairwise(column.offsets.to_pylist())
    valid = column.is_valid().to_pylist()
    return [flat[a:b] if is_list else None for (a, b), is_list in zip(bounds, valid, strict=True)]


def _is_finite(value: float | None) -> bool:
    return value is None or math.isfinite(value)


def _number(value: float | None, *, exact: bool) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    if not exact:
        return None
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
