"""The report of the demonstration, `demo/report.json`, and when which result came."""

from __future__ import annotations

import json

import numpy as np

from towpath.checker.identity import EventIdentity, RangeIdentity, WindowIdentity, utc
from towpath.checker.observation import ReceivedMessage
from towpath.checker.verdict import Verdict
from towpath.contracts.commands import OperationView
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.report import Findings, MoveReport, findings
from towpath.lab.workload.replay import ReplayReport


class DemonstrationReport(Findings):
    """The whole run."""

    events: int
    """Events that devices sent, malformed ones included."""
    events_per_s: float
    """While they were being sent."""
    expected_results: int
    results: int
    rejected: int
    """Events that went to the dead-letter topics: cancelled and malformed ones."""
    latency_p50_s: float | None
    """Of cleaned events: from the site's broker to the subscriber."""
    latency_p99_s: float | None
    seconds: float
    """Of the whole run, start and stop of the mesh included."""
    migrations: list[MoveReport]

    @property
    def clean(self) -> bool:
        """True if every result arrived exactly once and right."""
        return self.exact and self.results > 0

    @classmethod
    def of(
        cls,
        verdict: Verdict,
        observations: list[ReceivedMessage],
        replays: list[ReplayReport],
        migrations: list[OperationView],
        passing: list[ReceivedResult],
        seconds: float,
    ) -> DemonstrationReport:
        """Return the report of a run that took `seconds`. `passing` are the cleaned events as they came."""
        events = sum(replay.sent for replay in replays)
        latencies = [arrival.latency_s for arrival in passing]
        return cls(
            events=events,
            events_per_s=round(events / max(replay.seconds for replay in replays), 1),
            expected_results=verdict.expected,
            results=verdict.results,
            rejected=sum(isinstance(o.identity, EventIdentity) for o in observations),
            latency_p50_s=_percentile(latencies, 50),
            latency_p99_s=_percentile(latencies, 99),
            seconds=round(seconds, 1),
            migrations=[MoveReport.of(view) for view in migrations],
            **findings(verdict),
        )


def _percentile(values: list[float], percent: float) -> float | None:
    return round(float(np.percentile(values, percent)), 3) if values else None


def arrivals(
    observations: list[ReceivedMessage], job: str, watermark_s: float
) -> tuple[list[ReceivedResult], list[ReceivedResult]]:
    """Return the results of the moving `job`, and those of the cleaning jobs, as they came."""
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
