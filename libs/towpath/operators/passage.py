"""Pass events on unchanged: their JSON goes into the result as it came, and is not written again."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from towpath.contracts.job import ResolvedInput
from towpath.operators.columns import INPUT, REASON, SERIAL, STORED_AT, TEXT, named
from towpath.operators.inspection import NOT_AN_OBJECT
from towpath.operators.json_events import END, EVENT, UNREAD, VALID, read_messages
from towpath.operators.publication import ResultParts

VALUES = "result values"
KEY = "result key"
WINDOW = "result window"
COUNT = "result count"

_VALUES_MEMBER = ',"values":'
_ENVELOPE = T.StructType(
    [T.StructField(name, T.StringType()) for name in ("values", "key", "window", "count")]
)


def pass_on(messages: DataFrame, source: ResolvedInput, position: int) -> DataFrame:
    """`serial`, `input`, `stored_at`, the JSON of values, key, window and count, text and reason."""
    event_type = T.StringType() if source.from_device else _ENVELOPE
    rows = read_messages(messages, position, event_type)
    text = F.trim(named(TEXT), F.lit(" \t\r\n"))
    readable = named(END).isNotNull() & named(EVENT).isNotNull() & named(UNREAD).isNull()
    complete = readable & is_one_object(text)
    unreadable = F.when(~named(VALID), F.lit("not UTF-8")).when(~complete, F.lit(NOT_AN_OBJECT))
    if source.from_device:
        nothing = F.lit(None).cast("string")
        reason, parts = unreadable, [text, nothing, nothing, nothing]
    else:
        reason, parts = F.coalesce(unreadable, _envelope_complaint()), _envelope_parts(text)
    members = zip((VALUES, KEY, WINDOW, COUNT), parts, strict=True)
    return rows.select(
        SERIAL,
        INPUT,
        STORED_AT,
        *(part.alias(name) for name, part in members),
        named(TEXT),
        reason.alias(REASON),
    )


def passed_parts() -> ResultParts:
    """The result of an event that passes: its parts as `pass_on` found them."""
    return ResultParts(
        values=named(VALUES),
        serial=F.col(SERIAL),
        stored_at=F.col(STORED_AT),
        input=F.col(INPUT),
        window=named(WINDOW),
        count=F.coalesce(named(COUNT), F.lit("1")),
        key=named(KEY),
    )


def is_one_object(text: Column) -> Column:
    """True if the text is one JSON object with nothing behind it.

    It is read as `[text, 0]` and, by `read_messages`, as a member of an object. Only a complete value closes
    the brackets of both.
    """
    length = F.json_array_length(F.concat(F.lit("["), text, F.lit(",0]")))
    is_one = text.startswith("{") & text.endswith("}") & (length == 2)
    return F.coalesce(is_one, F.lit(False))


def _envelope_complaint() -> Column:
    """The fault of a text that is no job's result in its envelope; null if there is none."""
    values, count = F.col("event.values"), F.col("event.count")
    not_objects = [
        F.when(
            ~F.coalesce(F.col(f"event.{name}").startswith("{"), F.lit(name != "values")),
            F.lit(f"field '{name}': expected an object, as in every job's result"),
        )
        for name in ("values", "key", "window")
    ]
    bad_count = F.when(~count.rlike(r"^\d+$"), F.lit("field 'count': expected a whole number"))
    return F.coalesce(*not_objects, bad_count, F.when(values.isNull(), F.lit(NOT_AN_OBJECT)))


def _envelope_parts(text: Column) -> list[Column]:
    """Values, key, window and count of an upstream result.

    Spark copies a nested object with every number as a double. Results have their values last, so they can be
    cut out of the text with all their digits. If the cut is no object, Spark's copy is used.
    """
    start = F.instr(text, _VALUES_MEMBER) + len(_VALUES_MEMBER)
    cut = F.substr(text, start, F.length(text) - start)
    values = F.when(is_one_object(cut), cut).otherwise(F.col("event.values"))
    return [values, *(F.col(f"event.{name}") for name in ("key", "window", "count"))]
