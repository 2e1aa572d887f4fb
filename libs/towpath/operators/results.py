"""Name the columns of results as `towpath.streams.encoding` expects them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from towpath.streams import encoding
from towpath.streams.reading import INPUT, SERIAL, STORED_AT


def results_of(
    rows: DataFrame,
    values: Column | Sequence[Column] = (),
    *beside: Column,
    own_text: Column | None = None,
    count: Column | None = None,
    key: Column | None = None,
    window: Column | None = None,
    closed: Column | None = None,
    after: Column | None = None,
    through: Column | None = None,
    identity: Column | None = None,
) -> DataFrame:
    """One result per row, which has the row's `serial`, `input` and `stored_at`.

    `values` are the members of the result's values, or one column with JSON objects as text. All others have
    the names and meanings of the constants of `encoding`. What stands `beside` them is of no meaning.
    """
    if own_text is None:
        own_values = {encoding.VALUES: values if isinstance(values, Column) else struct_of(values)}
    else:
        own_values = {encoding.OWN_TEXT: own_text}
    parts = {
        **own_values,
        encoding.COUNT: count,
        encoding.KEY: key,
        encoding.WINDOW: window,
        encoding.CLOSED: closed,
        encoding.AFTER: after,
        encoding.THROUGH: through,
        encoding.IDENTITY: identity,
    }
    own = [name for name in (SERIAL, INPUT, STORED_AT) if name in rows.columns]
    return rows.select(*own, *beside, *(part.alias(name) for name, part in parts.items() if part is not None))


def struct_of(members: Sequence[Column]) -> Column:
    """The struct of these members. Without any, an empty object: Spark has no empty structs."""
    return F.struct(*members) if members else F.lit("{}")
