"""Reports of a process on its rules: lines of a file of its own, which the scope's keeper reads."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections import deque
from pathlib import Path

from towpath.contracts.faults import RuleCount, RuleReport
from towpath.contracts.metrics import Metric

log = logging.getLogger(__name__)

KEPT_LINES = 20_000
"""Lines that wait to be written, some megabytes: a rule that measures more between two writes loses the
oldest ones."""


def report_file(directory: Path, process: str) -> Path:
    """Return a file for this process alone.

    In a container, the next process often has the pid of the last one, and counts from 0.
    """
    return directory / f"{process}-{secrets.token_hex(4)}-{os.getpid()}.jsonl"


class Reports:
    """Collects lines, and appends them in one write. Any thread may add some."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lines: deque[bytes] = deque(maxlen=KEPT_LINES)
        self._writing = threading.Lock()

    def metric(self, metric: Metric) -> None:
        """Add a measurement."""
        self._add(RuleReport(kind="metric", metric=metric))

    def count(self, count: RuleCount) -> None:
        """Add how often a rule acted so far."""
        self._add(RuleReport(kind="count", count=count))

    def _add(self, report: RuleReport) -> None:
        self._lines.append(report.model_dump_json(exclude_none=True).encode() + b"\n")

    def flush(self) -> None:
        """Write what there is. What cannot be written is lost: no report is worth a process."""
        with self._writing:
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if not lines:
                return
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open("ab", buffering=0) as file:
                    file.write(b"".join(lines))
            except OSError as error:
                log.warning("%d reports of rules are lost: %s", len(lines), error)
