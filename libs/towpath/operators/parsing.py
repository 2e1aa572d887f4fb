"""Parse events into typed columns. An event that does not fit gets a reason; no event is dropped.

`from_json` alone is too kind: it makes strings of numbers, and null of a wrong type. It is also by far the
cheapest way. So it reads every event, and `inspection` looks a second time at each that may be wrong.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from towpath.contracts.job import ResolvedInput
from towpath.contracts.operators import FieldType
from towpath.operators.columns import INPUT, REASON, SERIAL, STORED_AT, TEXT, any_of, named
from towpath.operators.inspection import reason_of
from towpath.operators.json_events import END, EVENT, UNREAD, VALID, envelope_paths, instant_of, read_messages

_READ_AS: dict[FieldType, T.DataType] = {
    FieldType.STRING: T.StringType(),
    FieldType.LONG: T.LongType(),
    FieldType.DOUBLE: T.DoubleType(),
    FieldType.BOOLEAN: T.BooleanType(),
    # Spark would take a number for seconds since 1970, so the text is read and converted here.
    FieldType.TIMESTAMP: T.StringType(),
}

_NOT_A_STRING = r"^(-?\d[\d.eE+-]*|true|false|[\[{](?s:.*)[\]}])$"
"""Strings that could also come from a JSON number, boolean, array or object."""
_THEIR_INITIALS = tuple("-0123456789tf[{")


def parse(
    messages: DataFrame, source: ResolvedInput, position: int, fields: dict[str, FieldType]
) -> DataFrame:
    """Typed rows: `serial`, `input`, `stored_at`, the fields, and text and reason of bad events.

    A field of an upstream job's result is looked up in its `values`, then in its `key`. `window_start`,
    `window_end` and `count` are looked up in its envelope, too.
    """
    rows = read_messages(messages, position, _event_type(source, fields))
    raw = {name: _lookup(source, name) for name in fields}
    typed = {
        name: instant_of(raw[name]) if kind is FieldType.TIMESTAMP else raw[name]
        for name, kind in fields.items()
    }
    suspicious = any_of(
        [
            named(END).isNull() | named(UNREAD).isNotNull(),
            (named(EVENT) if source.from_device else F.col(f"{EVENT}.values")).isNull(),
            ~named(TEXT).endswith("}") | ~named(VALID),
            *(_suspicious(kind, raw[name], typed[name]) for name, kind in fields.items()),
        ]
    )
    return rows.select(
        SERIAL,
        INPUT,
        STORED_AT,
        *(column.alias(name) for name, column in typed.items()),
        named(TEXT),
        F.when(suspicious, reason_of(source, fields)).alias(REASON),
    )


def _event_type(source: ResolvedInput, fields: dict[str, FieldType]) -> T.StructType:
    members = T.StructType([T.StructField(name, _READ_AS[kind]) for name, kind in fields.items()])
    if source.from_device:
        return members
    bounds = [
        T.StructField(bound, _READ_AS[fields.get(f"window_{bound}", FieldType.TIMESTAMP)])
        for bound in ("start", "end")
    ]
    return T.StructType(
        [
            T.StructField("values", members),
            T.StructField("key", members),
            T.StructField("window", T.StructType(bounds)),
            T.StructField("count", _READ_AS[fields.get("count", FieldType.LONG)]),
        ]
    )


def _lookup(source: ResolvedInput, name: str) -> Column:
    paths = [name] if source.from_device else envelope_paths(name)
    return F.coalesce(*(F.col(f"{EVENT}.{path}") for path in paths))


def _suspicious(kind: FieldType, raw: Column, typed: Column) -> Column:
    """False if the value certainly had the declared JSON type. It is cheap, as it runs for every event."""
    match kind:
        case FieldType.STRING:
            likely = F.substring(raw, 1, 1).isin(*_THEIR_INITIALS)
            return F.coalesce(likely & raw.rlike(_NOT_A_STRING), F.lit(False))
        case FieldType.DOUBLE:
            return F.coalesce(F.isnan(raw) | (F.abs(raw) == float("inf")), F.lit(False))
        case FieldType.TIMESTAMP:
            return raw.isNotNull() & typed.isNull()
        case _:
            return F.lit(False)
