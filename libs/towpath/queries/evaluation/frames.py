"""The function that Spark calls with the panes of a group of keys, as pandas frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pandas as pd

from towpath.queries.evaluation.group import Group, GroupAnswer
from towpath.queries.evaluation.history import Entry, Pane
from towpath.queries.evaluation.totals import Totals
from towpath.queries.program import KeyColumn, Part, Program

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

START, END, SERIAL, STORED, SOURCE = "start", "end", "serial", "stored", "source"
"""Columns of panes beside keys and parts. Times are microseconds since 1970. The source is the position of an
input. A row that ends where it starts is a punctuation: all panes that end until then have come."""

INPUTS = 10_000
"""More than a job has inputs: puts the inputs of one job of panes before those of the next."""

ANSWERS = {
    SERIAL: "bigint",
    STORED: "bigint",
    START: "bigint",
    END: "bigint",
    "number": "bigint",
    "query": "string",
    "key": "string",
    "values": "string",
}
"""Columns of answers. `key` and `values` are JSON objects."""


class _Value(msgspec.Struct):
    t: int
    i: int
    s: int
    v: float | str | bool


_SERIES = msgspec.json.Decoder(list[_Value])


@dataclass(frozen=True)
class PaneGroups:
    """Answers the queries of groups of keys. Its methods are what Spark calls."""

    programs: Mapping[str, Program]
    """By the first member of a group's key."""
    parts: Sequence[tuple[str, str]]
    """Columns of arguments and their parts that panes have."""

    def stateful(
        self, key: Sequence[Any], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """For `applyInPandasWithState`: the panes of a micro-batch, or none if a moment has come.

        Moments have come up to the watermark, or up to the last punctuation among the panes.
        """
        program = self.programs[key[0]]
        group = Group(program, bytes(state.get[0]) if state.exists else None)
        watermark_ms = state.getCurrentWatermarkMs()
        until = watermark_ms * 1000
        for frame in () if state.hasTimedOut else frames:
            group.take([*self._panes(frame, program)])
            until = max([until, *_punctuated(frame)])
        yield self._frame(program, group.answers(until))
        state.update((group.state,))
        moment = group.next_moment()
        if moment is not None:
            # Spark calls when the watermark is past the time, and wants one that is ahead.
            state.setTimeoutTimestamp(max(-(-moment // 1000) - 1, watermark_ms + 1))

    def whole(self, key: Sequence[Any], frame: pd.DataFrame) -> pd.DataFrame:
        """For `applyInPandas`: all panes of a group."""
        program = self.programs[key[0]]
        group = Group(program)
        group.take([*self._panes(frame, program)])
        return self._frame(program, group.answers(int(frame[END].max())))

    def _panes(self, frame: pd.DataFrame, program: Program) -> Iterator[Pane]:
        keys = sorted({key.column for query in program.queries for key in query.by})
        columns = {name: frame[name].tolist() for name in frame.columns}
        for at in range(len(frame)):
            if columns[START][at] >= columns[END][at]:
                continue
            before = columns[SOURCE][at] * INPUTS
            totals: dict[str, Totals] = {}
            series: dict[str, Sequence[Entry]] = {}
            for column, part in self.parts:
                value = columns[f"{column}_{part}"][at]
                if part == Part.SERIES:
                    series[column] = [
                        (one.t, before + one.i, one.s, one.v) for one in _SERIES.decode(value or "[]")
                    ]
                else:
                    _set(totals.setdefault(column, Totals()), part, value)
            for one in totals.values():
                one.spread *= max(one.count - 1, 0)
            yield Pane(
                columns[END][at],
                {name: columns[name][at] for name in keys},
                (columns[SERIAL][at], columns[STORED][at]),
                totals,
                series,
            )

    def _frame(self, program: Program, answers: Sequence[GroupAnswer]) -> pd.DataFrame:
        by_name = {query.name: query for query in program.queries}
        rows = [
            (
                *answer.origin,
                answer.at - (by_name[answer.query].longest_micros or 1),
                answer.at,
                answer.number,
                answer.query,
                _json(_key(by_name[answer.query].by, answer)),
                _json({"value": answer.value, **answer.about}),
            )
            for answer in answers
        ]
        columns = zip(*rows, strict=True) if rows else [()] * len(ANSWERS)
        return pd.DataFrame(
            {
                name: np.array(values, np.int64 if kind == "bigint" else object)
                for (name, kind), values in zip(ANSWERS.items(), columns, strict=True)
            },
            copy=False,
        )


def _punctuated(frame: pd.DataFrame) -> list[int]:
    """The ends of punctuations. With numpy, because each group of each micro-batch asks for them."""
    starts, ends = frame[START].to_numpy(), frame[END].to_numpy()
    return ends[starts == ends].tolist()


def _set(totals: Totals, part: str, value: Any) -> None:
    """Note a part of a pane. Of no values all parts but the count are null."""
    if value is None or value != value:
        return
    match part:
        case Part.COUNT:
            totals.count = int(value)
        case Part.SUM:
            totals.sum = [float(value)]
        case Part.SDEV:
            totals.spread = float(value) * float(value)
        case Part.MIN:
            totals.min = float(value)
        case Part.MAX:
            totals.max = float(value)
        case _:
            setattr(totals.weighted, part, float(value))


def _key(by: Sequence[KeyColumn], answer: GroupAnswer) -> Mapping[str, Any]:
    values = {each.name: _typed(text[1:], each.type) for each, text in zip(by, answer.key, strict=True)}
    return {"query": answer.query, **values}


def _typed(text: str, kind: str) -> Any:
    match kind:
        case "long":
            return int(text)
        case "double":
            return float(text)
        case "boolean":
            return text == "true"
        case _:
            return text


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
