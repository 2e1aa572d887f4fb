"""What a report is made from: everything that was asked, and why what is missing is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from towpath.contracts.commands import JobView, OperationView
from towpath.contracts.metrics import METRICS_BY_NAME, Series
from towpath.contracts.pipeline import PipelineVersion, PipelineView
from towpath.contracts.traces import Trace

Curve = list[tuple[float, float]]
"""Unix seconds and value, by time."""


@dataclass(frozen=True)
class Measured:
    """Series, as far as they could be had."""

    series: list[Series] = field(default_factory=list)
    unreached: Mapping[str, str] = field(default_factory=dict)
    """Site whose samples are missing → why."""
    failure: str | None = None
    """Why there are none at all, if nobody could be asked."""

    def curve(self, metric: str, entity: str, site: str) -> Curve:
        """What a site measured of something; empty if it did not."""
        wanted = (metric, entity, site)
        found = (one for one in self.series if (one.metric, one.entity, one.site) == wanted)
        return next((one.points for one in found), [])

    def by_site(self, metric: str, entity: str) -> dict[str, Curve]:
        """Site → what it measured of something, where there is anything."""
        found = (one for one in self.series if (one.metric, one.entity) == (metric, entity))
        return {one.site: one.points for one in found if one.points}

    def shortfall(self) -> str | None:
        """What is missing, in a sentence; None if nothing is."""
        if self.failure is not None:
            return f"There are no measurements: {self.failure}."
        if not self.unreached:
            return None
        silent = "; ".join(f"{site} ({why})" for site, why in sorted(self.unreached.items()))
        return f"What these have measured is missing, because they did not answer: {silent}."


def unit_of(metric: str) -> str:
    """The unit of a metric, as people write it: `{event}/s` is `events/s`."""
    known = METRICS_BY_NAME.get(metric)
    unit = "" if known is None else known.unit
    return {"By": "bytes", "1": ""}.get(unit, unit.replace("{", "").replace("}", "s"))


@dataclass(frozen=True)
class MigrationFacts:
    """One migration."""

    view: OperationView
    measured: Measured
    trace: Trace | None = None
    untraced: str | None = None
    """Why there is no trace."""


@dataclass(frozen=True)
class PipelineFacts:
    """One pipeline."""

    view: PipelineView
    versions: list[PipelineVersion]
    """The newest first."""
    jobs: list[JobView]
    """Its jobs, as far as they run."""
    measured: Measured
