"""What a run of the demonstration found: `demo/report.json`."""

from __future__ import annotations

from towpath.contracts.message import Model


class MigrationReport(Model):
    """One migration of the run."""

    job: str
    source: str
    target: str
    strategy: str
    total_s: float
    downtime_s: float | None
    """From the last input the source processed to the first the target processed, less the trigger
    interval."""
    state_bytes: int
    begun_at: float
    """Unix seconds."""
    ended_at: float


class Report(Model):
    """The whole run."""

    events: int
    """Events that devices sent, malformed ones included."""
    events_per_s: float
    """While they were being sent."""
    expected_results: int
    results: int
    lost: int
    duplicated: int
    wrong: int
    """Results whose value is not that of the batch computation, or that it does not know."""
    out_of_order: int
    redelivered: int
    """Copies the MQTT broker marked by reconnection; its quality of service allows them."""
    rejected: int
    """Events that went to the dead-letter topics: cancelled and malformed ones."""
    latency_p50_s: float | None
    """Of cleaned events: from the site's broker to the subscriber."""
    latency_p99_s: float | None
    seconds: float
    """Of the whole run, start and stop of the mesh included."""
    migrations: list[MigrationReport]
    examples: dict[str, list[str]] = {}
    """A few of each kind of fault, if any."""

    @property
    def clean(self) -> bool:
        """Whether every result arrived exactly once and right."""
        return self.lost == self.duplicated == self.wrong == 0 and self.results > 0
