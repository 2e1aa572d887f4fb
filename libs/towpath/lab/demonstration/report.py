"""What a run of the demonstration found: `demo/report.json`."""

from __future__ import annotations

from towpath.lab.harness.report import Findings, MoveReport


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
        """Whether every result arrived exactly once and right."""
        return self.exact and self.results > 0
