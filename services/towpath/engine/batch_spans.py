"""Spans of the micro-batches that a command touched: the first of a run, and the one a halt waited for."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.engine.batch_reports import BatchReport
from towpath.telemetry.tracing import ids_of, record, span_of

FIRST_BATCHES = 3
"""Traced micro-batches of a run: the first loads state and starts workers, the next ones catch up."""


@dataclass
class BatchSpans:
    """Spans of one run of one job."""

    job: str
    site: str
    generation: int
    """Generation of the job's checkpoint. Each one counts its micro-batches from 0."""
    _command: str | None = None
    """W3C traceparent of the command that started the run."""
    _left: int = 0
    _newest: BatchReport | None = None

    @property
    def waits(self) -> bool:
        """True if the next micro-batch gets a span."""
        return self._left > 0

    def begin(self, traceparent: str | None) -> None:
        """Note that a command starts the run. With None it is outside of any trace, and has no spans."""
        self._command, self._left = traceparent, FIRST_BATCHES if traceparent else 0

    def take_in(self, report: BatchReport) -> None:
        """Take in a committed micro-batch: each once, in order."""
        self._newest = report
        if self._left > 0:
            self._left -= 1
            self._record(report, self._command)

    def halted(self, traceparent: str | None, asked_ns: int) -> None:
        """Note the end of a halt that was commanded at `asked_ns` (Unix nanoseconds).

        The micro-batch that was under way then gets a span if it is committed now: the halt waited for it.
        """
        newest = self._newest
        if newest is not None and newest.begun_ns <= asked_ns <= newest.ended_ns:
            self._record(newest, traceparent)

    def _record(self, report: BatchReport, traceparent: str | None) -> None:
        ids = ids_of(traceparent) if traceparent else None
        if ids is None:
            return
        trace, parent = ids
        record(
            f"batch {report.batch}",
            begun_ns=report.begun_ns,
            ended_ns=report.ended_ns,
            trace=trace,
            span=span_of("batch", trace, self.site, self.job, str(self.generation), str(report.batch)),
            parent=parent,
            attributes=batch_attributes(self.job, self.site, report),
        )


def batch_attributes(job: str, site: str, report: BatchReport) -> dict[str, str | int | float | bool]:
    """Return the attributes of a micro-batch's span."""
    return {
        "towpath.job": job,
        "towpath.site": site,
        "towpath.batch": report.batch,
        "towpath.events": report.events,
        **{f"towpath.step.{name}.events": count for name, count in report.steps.items()},
    }
