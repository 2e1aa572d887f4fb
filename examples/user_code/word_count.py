"""User code for `word_count.yaml`: how often each word occurs, per window of time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

COUNTED = pa.schema(
    [("stored_at", pa.timestamp("us", tz="UTC")), ("word", pa.string()), ("occurrences", pa.int64())]
)

_WORD = re.compile(r"[a-z']+")


def count_words(lines: DataFrame, parameters: dict[str, Any]) -> DataFrame:
    """Count the words of all lines that were stored within the same `window_s` seconds.

    `tasks` bundles of lines are worked off by whichever Python worker is free, so that a slow one takes
    fewer. Each counts its words before they are added up.
    """
    window_s = int(parameters["window_s"])
    spread = lines.repartition(int(parameters["tasks"]))
    counted = spread.mapInArrow(
        partial(words_counted, window_s=window_s), "stored_at timestamp, word string, occurrences long"
    )
    window = sql.window("stored_at", f"{window_s} seconds").alias("window")
    return (
        counted.withWatermark("stored_at", "0 seconds")
        .groupBy(window, "word")
        .agg(sql.sum("occurrences").alias("occurrences"))
    )


def words_counted(bundles: Iterator[pa.RecordBatch], window_s: int) -> Iterator[pa.RecordBatch]:
    """Each word of the bundles, at the begin of its window, with how often it occurs."""
    counts: Counter[tuple[int, str]] = Counter()
    width = window_s * 1_000_000
    for bundle in bundles:
        stored_at = bundle["stored_at"].cast(pa.int64()).to_pylist()
        for at, line in zip(stored_at, bundle["line"].to_pylist(), strict=True):
            begin = at - at % width
            counts.update((begin, word) for word in words_of(line))
    begins, words = [begin for begin, _ in counts], [word for _, word in counts]
    columns = [
        pa.array(begins, pa.int64()).cast(COUNTED.field(0).type),
        pa.array(words),
        pa.array(counts.values()),
    ]
    yield pa.RecordBatch.from_arrays(columns, schema=COUNTED)


def words_of(line: str) -> list[str]:
    """The words of a line, in lower case."""
    return _WORD.findall(line.lower())
