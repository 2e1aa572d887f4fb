"""Pack the rows of a key into one binary value, and unpack them.

At each crossing between Spark and Python every row becomes Arrow, and pandas makes a frame of a dozen columns
for each key of each micro-batch. So rows are packed once, and Spark carries a single value for each key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

PACKED = "packed rows"
"""The column that holds them: a stream in Arrow's format."""


def packed(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Return rows as one value."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue().to_pybytes()


def unpacked(values: Iterable[bytes]) -> pa.Table:
    """Return the rows of some such values, at least one."""
    return pa.concat_tables([pa.ipc.open_stream(value).read_all() for value in values])


@dataclass(frozen=True)
class Packing:
    """Packs rows by key."""

    keys: Sequence[str]
    """Columns that are the key. They are not packed."""

    def by_key(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each key of a batch, with its columns and `PACKED`."""
        for batch in batches:
            if batch.num_rows:
                yield self._by_key(batch)

    def _by_key(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        groups = np.zeros(batch.num_rows, np.int64)
        for name in self.keys:
            codes = batch.column(name).dictionary_encode(null_encoding="encode").indices.to_numpy()
            _, groups = np.unique(groups * (int(codes.max()) + 1) + codes, return_inverse=True)
        order = np.argsort(groups, kind="stable")
        begins = np.flatnonzero(np.diff(groups[order], prepend=-1))
        ends = [*begins[1:], batch.num_rows]
        rows = batch.select([name for name in batch.schema.names if name not in self.keys]).take(order)
        values = [packed(rows.slice(a, b - a)) for a, b in zip(begins, ends, strict=True)]
        keys = batch.select(self.keys).take(order[begins])
        return pa.RecordBatch.from_arrays(
            [*keys.columns, pa.array(values, pa.binary())], names=[*self.keys, PACKED]
        )


def unpacked_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that batches hold packed."""
    for batch in batches:
        for value in batch.column(PACKED).to_pylist():
            yield from unpacked([value]).to_batches()
