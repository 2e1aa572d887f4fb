"""Reads the reports of a scope's processes on its rules: how often they acted, and what they measured.

Each process appends lines to a file of its own, `<process>-<start>-<pid>.jsonl`. The file of a process that
is gone is cut down to its last counts, and stays as long as one of its rules is loaded: so counts outlive the
processes that counted, and the reader.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from pydantic import ValidationError

from towpath.atomic_write import write_atomically
from towpath.contracts.faults import RuleCount, RuleReport
from towpath.contracts.metrics import Metric

log = logging.getLogger(__name__)

CLOCK_TOLERANCE_S = 2.0
"""A process that began so long after the last line of a file is another one with the same pid."""

READ_BYTES = 4 * 1024**2
"""Of one file in one look, at most: what is left comes with the next."""

RuleVersion = tuple[str, int]
"""A rule's name and version."""


@dataclass
class _Tail:
    """One file, as far as it was read."""

    path: Path
    offset: int = 0
    counts: dict[RuleVersion, RuleCount] = field(default_factory=dict)
    gone: bool = False
    """True if its process has ended and the file was cut down."""


class ReportReader:
    """The report files of one scope. Everything here blocks for a moment."""

    def __init__(self, directory: Path, since: float) -> None:
        """Metrics that were measured before `since` (Unix seconds) were an earlier reader's."""
        self._directory = directory
        self._since = since
        self._tails: dict[Path, _Tail] = {}

    def read(self) -> list[Metric]:
        """Return what was measured since the last look."""
        for path in self._directory.glob("*.jsonl"):
            self._tails.setdefault(path, _Tail(path))
        metrics: list[Metric] = []
        for path, tail in list(self._tails.items()):
            try:
                metrics += self._follow(tail)
            except FileNotFoundError:
                del self._tails[path]
        return metrics

    def counts(self) -> list[RuleCount]:
        """Return the counts of each version of a rule so far, over all processes."""
        found: dict[RuleVersion, list[RuleCount]] = {}
        for tail in self._tails.values():
            for key, count in tail.counts.items():
                found.setdefault(key, []).append(count)
        return [total(counts) for _, counts in sorted(found.items())]

    def forget(self, loaded: Iterable[RuleVersion]) -> None:
        """Drop what processes that are gone said of rules that are not loaded any more."""
        kept = set(loaded)
        for path, tail in list(self._tails.items()):
            if tail.gone and not kept & tail.counts.keys():
                path.unlink(missing_ok=True)
                del self._tails[path]

    def _follow(self, tail: _Tail) -> list[Metric]:
        # Before the file: what a process wrote before it was found gone is in what is read then.
        alive = _writes_still(tail.path)
        with tail.path.open("rb") as file:
            file.seek(tail.offset)
            read = file.read(READ_BYTES)
        end = read.rfind(b"\n") + 1
        tail.offset += end
        metrics = self._parse(tail, read[:end].splitlines())
        # A process of another container seems to be gone, and writes again.
        tail.gone = tail.gone and not end
        if not alive and not tail.gone and len(read) < READ_BYTES:
            _cut_down(tail)
        return metrics

    def _parse(self, tail: _Tail, lines: Sequence[bytes]) -> list[Metric]:
        metrics: list[Metric] = []
        for line in lines:
            try:
                report = RuleReport.model_validate_json(line)
            except ValidationError as error:
                log.warning("%s: a line cannot be read: %s", tail.path.name, error)
                continue
            if report.count is not None:
                tail.counts[report.count.rule, report.count.version] = report.count
            if report.metric is not None and report.metric.at.timestamp() >= self._since:
                metrics.append(report.metric)
        return metrics


def total(counts: Sequence[RuleCount]) -> RuleCount:
    """Return the sum over processes, of one version of a rule."""
    return counts[0].model_copy(
        update={
            "looked": sum(count.looked for count in counts),
            "acted": sum(count.acted for count in counts),
            "errors": sum(count.errors for count in counts),
            "last_error": next((count.last_error for count in reversed(counts) if count.last_error), None),
        }
    )


def _writes_still(path: Path) -> bool:
    """Return true if the process that the file is named after lives. Raises `FileNotFoundError`."""
    written_at = path.stat().st_mtime
    pid = path.stem.rpartition("-")[2]
    with contextlib.suppress(psutil.NoSuchProcess, ValueError):
        process = psutil.Process(int(pid))
        same = process.create_time() <= written_at + CLOCK_TOLERANCE_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    return False


def _cut_down(tail: _Tail) -> None:
    """Only the last counts, or nothing when there are none: killed at any line, the sums stay right."""
    lines = [RuleReport(kind="count", count=count).model_dump_json() for count in tail.counts.values()]
    text = "".join(f"{line}\n" for line in lines)
    if text:
        write_atomically(tail.path, text, durable=False)
    else:
        tail.path.unlink(missing_ok=True)
    tail.offset, tail.gone = len(text.encode()), True
