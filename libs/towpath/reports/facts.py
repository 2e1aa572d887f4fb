"""Facts that a report is made from, and the reasons why facts are missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from towpath.contracts.commands import JobView, OperationView
from towpath.contracts.metrics import Series
from towpath.contracts.pipeline import PipelineVersion, PipelineView
from towpath.contracts.traces import Trace

Curve = list[tuple[float, float]]
"""Points of Unix seconds and value, by time."""


@dataclass(frozen=True)
class ReadSeries:
    """Series, as far as they could be read."""

    series: list[Series] = field(default_factory=list)
    unreached: Mapping[str, str] = field(default_factory=dict)
    """Site whose samples are missing → the reason."""
    failure: str | None = None
    """Reason why there are no samples at all, if the collector did not answer."""

    def curve(self, metric: str, entity: str, site: str) -> Curve:
        """Return the points that a site measured of an entity. Empty if it measured none."""
        wanted = (metric, entity, site)
        found = (one for one in self.series if (one.metric, one.entity, one.site) == wanted)
        return next((one.points for one in found), [])

    def by_site(self, metric: str, entity: str) -> dict[str, Curve]:
        """Return site → its points of an entity, for sites that have any."""
        found = (one for one in self.series if (one.metric, one.entity) == (metric, entity))
        return {one.site: one.points for one in found if one.points}

    def shortfall(self) -> str | None:
        """Return a sentence that names what is missing. None if nothing is."""
        if self.failure is not None:
            return f"There are no measurements: {self.failure}."
        if not self.unreached:
            return None
        silent = "; ".join(f"{site} ({why})" for site, why in sorted(self.unreached.items()))
        return f"The measurements of these sites are missing, because they did not answer: {silent}."


@dataclass(frozen=True)
class MigrationFacts:
    """Facts about one migration."""

    view: OperationView
    measured: ReadSeries
    trace: Trace | None = None
    untraced: str | None = None
    """Reason why there is no trace."""


@dataclass(frozen=True)
class PipelineFacts:
    """Facts about one pipeline."""

    view: PipelineView
    versions: list[PipelineVersion]
    """The versions, newest first."""
    jobs: list[JobView]
    """Its running jobs."""
    measured: ReadSeries
