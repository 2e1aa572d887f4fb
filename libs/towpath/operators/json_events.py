"""Read the JSON of a message: a bare object from a device, or a job's result in its envelope."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from towpath.operators.columns import INPUT, SERIAL, STORED_AT, TEXT, barrier, named

EVENT = "event"
END = "end"
UNREAD = "unread text"
"""Not null where Spark could not read the JSON, or where a member has the wrong type."""
VALID = "valid text"
"""True if the bytes were UTF-8."""

_STRICT = {
    "columnNameOfCorruptRecord": UNREAD,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


def wrapped(text: Column) -> Column:
    """The event as a member of an object, so that text behind the event makes it unreadable."""
    return F.concat(F.lit('{"event":'), text, F.lit(',"end":true}'))


def read_messages(messages: DataFrame, position: int, event: T.DataType) -> DataFrame:
    """`serial`, `input`, `stored_at` and text of each message, and its JSON read as type `event`.

    `event` is null, or `end` is, where the message is not one complete JSON value of that type.
    """
    value = F.col("value").cast("string")
    rows = messages.select(
        F.col(SERIAL).cast("long").alias(SERIAL),
        F.lit(position).alias(INPUT),
        F.col(STORED_AT),
        F.coalesce(F.make_valid_utf8(value), F.lit("")).alias(TEXT),
        F.coalesce(F.is_valid_utf8(value), F.lit(True)).alias(VALID),
    )
    schema = T.StructType(
        [
            T.StructField(EVENT, event),
            T.StructField(END, T.BooleanType()),
            T.StructField(UNREAD, T.StringType()),
        ]
    )
    parsed = F.from_json(wrapped(named(TEXT)), schema, _STRICT)
    columns = (SERIAL, INPUT, STORED_AT, TEXT, VALID)
    return barrier(rows, *(f"`{name}`" for name in columns), of=parsed)


def envelope_paths(name: str) -> list[str]:
    """The places of a field in an upstream job's result; the first that has a value counts."""
    own = {"window_start": ["window.start"], "window_end": ["window.end"], "count": ["count"]}
    return [f"values.{name}", f"key.{name}", *own.get(name, [])]


def instant_of(text: Column) -> Column:
    """The time of an ISO 8601 text, or null. Spark alone would read `12:30` as a time of today."""
    dated = (F.substring(text, 5, 1) == "-") & (F.substring(text, 8, 1) == "-")
    return F.when(dated, text.try_cast("timestamp"))
