"""Write Arrow columns as JSON, a column at a time.

A result has a dozen members. To make an object of Python's for each row and to encode that costs four times
as much. Encoding a column of numbers is one call, and its text is cut at the commas.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from towpath.streams.plain_values import iso_times, members, plain_values

Texts: TypeAlias = Sequence[bytes | None]
"""The JSON of each value; None for null."""

encode = msgspec.json.Encoder(decimal_format="number").encode


def json_texts(column: pa.Array, *, exact: bool = False) -> Texts:
    """Return the JSON of each value, as `plain_values` has it. Structs lack members that are null.

    In `exact` texts, numbers that JSON cannot write are texts.
    """
    kind = column.type
    if pa.types.is_struct(kind) and kind.num_fields:
        inner = {name: json_texts(values, exact=exact) for name, values in members(column).items()}
        return _where_valid(json_objects(inner), column)
    if pa.types.is_integer(kind) or (pa.types.is_floating(kind) and _is_finite(column)):
        return _cut(column)
    if pa.types.is_string(kind):
        coded = column.dictionary_encode()
        known = [encode(text) for text in coded.dictionary.to_pylist()]
        return [None if n is None else known[n] for n in coded.indices.to_pylist()]
    if pa.types.is_timestamp(kind):
        return [None if text is None else f'"{text}"'.encode() for text in iso_times(column)]
    values = plain_values(column, exact=exact and pa.types.is_floating(kind))
    return [None if value is None else encode(value) for value in values]


def json_objects(columns: Mapping[str, Texts]) -> list[bytes]:
    """Return an object for each row of these columns, without members that are null. At least one column."""
    pieces: list[Any] = []
    for name, texts in columns.items():
        head = b"," + encode(name) + b":"
        if None in texts:
            pieces.append([b"" if text is None else head + text for text in texts])
        else:
            pieces += [itertools.repeat(head), texts]
    return [b"{" + b"".join(row)[1:] + b"}" for row in zip(*pieces, strict=False)]


def _cut(numbers: pa.Array) -> Texts:
    if not len(numbers):
        return []
    texts: list[bytes | None] = [*encode(numbers.to_pylist())[1:-1].split(b",")]
    return _where_valid(texts, numbers)


def _where_valid(texts: Sequence[bytes | None], column: pa.Array) -> Texts:
    if not column.null_count:
        return texts
    return [text if valid else None for text, valid in zip(texts, column.is_valid().to_pylist(), strict=True)]


def _is_finite(numbers: pa.Array) -> bool:
    finite = pc.is_finite(numbers)  # pyright: ignore[reportAttributeAccessIssue]
    return pc.all(finite).as_py() is not False  # pyright: ignore[reportAttributeAccessIssue]
