"""Figures of a run: its report, and when which result came."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from towpath.checker.identity import EventIdentity, RangeIdentity, WindowIdentity, utc
from towpath.checker.observation import ReceivedMessage
from towpath.checker.verdict import Verdict
from towpath.contracts.commands import OperationView
from towpath.lab.demonstration.report import DemonstrationReport
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.report import MoveReport, findings
from towpath.lab.workload.replay import ReplayReport


@dataclass(frozen=True)
class RunFigures:
    """Everything the report is made from."""

    verdict: Verdict
    observations: list[ReceivedMessage]
    replays: list[ReplayReport]
    migrations: list[OperationView]
    passing: list[ReceivedResult]

    def report(self, seconds: float) -> DemonstrationReport:
        """The report of a run that took so long, seconds."""
        events = sum(replay.sent for replay in self.replays)
        latencies = [arrival.latency_s for arrival in self.passing]
        return DemonstrationReport(
            events=events,
            events_per_s=round(events / max(replay.seconds for replay in self.replays), 1),
            expected_results=self.verdict.expected,
            results=self.verdict.results,
            rejected=sum(isinstance(o.identity, EventIdentity) for o in self.observations),
            latency_p50_s=_percentile(latencies, 50),
            latency_p99_s=_percentile(latencies, 99),
            seconds=round(seconds, 1),
            migrations=[MoveReport.of(view) for view in self.migrations],
            **findings(self.verdict),
        )


def _percentile(values: list[float], percent: float) -> float | None:
    return round(float(np.percentile(values, percent)), 3) if values else None


def arrivals(
    observations: list[ReceivedMessage], job: str, watermark_s: float
) -> tuple[list[ReceivedResult], list[ReceivedResult]]:
    """Results of the moving `job`, and those of the cleaning jobs, as they came."""
    edge = job.rsplit("-", 1)[1]
    bodies = [(o, json.loads(o.payload)) for o in observations if not isinstance(o.identity, EventIdentity)]
    cleaned = [(o, b) for o, b in bodies if str(b["job"]).startswith("clean-")]
    passing = [_arrival(o, b, utc(b["stored_at"]).timestamp()) for o, b in cleaned]
    moved = [(o, b) for o, b in bodies if b["job"] == job]
    if all(isinstance(o.identity, RangeIdentity) for o, _ in moved):
        return [_arrival(o, b, utc(b["stored_at"]).timestamp()) for o, b in moved], passing
    mine = [b for _, b in cleaned if b["job"] == f"clean-{edge}"]
    return (_windows(moved, mine, watermark_s) if mine else []), passing


def _windows(
    moved: list[tuple[ReceivedMessage, dict]], mine: list[dict], watermark_s: float
) -> list[ReceivedResult]:
    """A window closes with the first event that moves the watermark past its end."""
    times = np.maximum.accumulate([utc(b["values"]["departed_at"]).timestamp() for b in mine])
    stored = [utc(b["stored_at"]).timestamp() for b in mine]
    ends = [o.identity.end.timestamp() for o, _ in moved if isinstance(o.identity, WindowIdentity)]
    closing = np.searchsorted(times - watermark_s, ends, side="left")
    return [
        _arrival(o, b, stored[min(int(index), len(stored) - 1)])
        for (o, b), index in zip(moved, closing, strict=True)
    ]


def _arrival(observation: ReceivedMessage, body: dict, stored_at: float) -> ReceivedResult:
    return ReceivedResult(
        observation.received_at, max(0.0, observation.received_at - stored_at), body["site"]
    )
