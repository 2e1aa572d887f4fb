"""The journal of a run: one JSON object per line, written at once, so that a killed run leaves one, too."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from towpath.contracts.errors import ErrorCode, TowpathError

FILE = "journal.jsonl"


class Entry(StrEnum):
    """Kinds of lines."""

    BEGUN = "begun"
    """`scenario` as it is run, `seed`, `chosen`."""
    PHASE = "phase"
    """`phase` begins: prepare, before, during, after, judge, restore, ended."""
    CHANGED = "changed"
    """The run is about to change a `job` or a `pipeline` for the first time. `was` is its state before the
    run, null if it did not exist. After a killed run, it tells what to put back."""
    STEP = "step"
    """A step of the timeline was executed: `action`, `what`, or `error`."""
    LOADED = "loaded"
    """`rules` are loaded."""
    UNLOADED = "unloaded"
    """`rules` are not loaded any more, `why`."""
    EVENT = "event"
    """The mesh published an event: `subject`, `body`."""
    SAMPLE = "sample"
    """`values` of the probes, and the names of those `outside` their tolerance."""
    DEVIATED = "deviated"
    """Steady state was left; `probes` say where."""
    STEADY = "steady"
    """Steady state holds again, `after_s`."""
    METRIC = "metric"
    COUNTS = "counts"
    """Counts of the looks and acts of `rules`."""
    MIGRATED = "migrated"
    """A migration has ended: its report."""
    RESULTS = "results"
    """Results of `job` that `came` since the last look: when (Unix seconds), the latency, the site."""
    VERDICT = "verdict"
    """The checker's verdict on `job`."""
    PROBLEM = "problem"
    """Something was not as expected: `text`."""
    ENDED = "ended"
    """The run's report."""


class Journal:
    """Appends lines to a file, and keeps them in memory, too."""

    def __init__(self, path: Path | None) -> None:
        self.lines: list[dict[str, Any]] = []
        self.begun = time.time()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8") if path is not None else None

    def add(self, kind: Entry, **fields: Any) -> None:
        """Write a line. `at` is Unix seconds, `t` seconds since the journal began."""
        at = time.time()
        line = {"at": round(at, 3), "t": round(at - self.begun, 3), "kind": str(kind), **fields}
        self.lines.append(line)
        if self._file is not None:
            self._file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
            self._file.flush()

    def of(self, *kinds: Entry) -> Iterator[dict[str, Any]]:
        """The lines of these kinds, in order."""
        return of(self.lines, *kinds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def of(lines: list[dict[str, Any]], *kinds: Entry) -> Iterator[dict[str, Any]]:
    """The lines of these kinds, in order."""
    return (line for line in lines if line["kind"] in kinds)


def read_journal(directory: Path) -> list[dict[str, Any]]:
    """Return the lines of a journal, without a last one that was not written to its end.

    Raises `TowpathError` if there is no journal.
    """
    path = directory / FILE
    try:
        # Not `splitlines` of text, which also ends a line at characters that JSON may have within a text.
        texts = path.read_bytes().split(b"\n")
    except OSError as error:
        raise TowpathError(
            ErrorCode.INVALID,
            "no journal here",
            field="directory",
            value=str(directory),
            allowed="a directory that `towpath scenario run --output` wrote",
        ) from error
    lines: list[dict[str, Any]] = []
    for text in filter(None, texts):
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines
