"""The report of a run: `demo/queries.json`."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.contracts.message import Model
from towpath.lab.harness.report import Judgement, MoveReport


class SharedNumber(Model):
    """A number that a site keeps of each pane of time, or a list of values."""

    part: str
    of: str
    serves: list[str]
    """Queries that use it."""


class SitePart(Model):
    """The part of the shared plan at a site."""

    site: str
    pane_s: float
    kept: list[SharedNumber]


class QueryReport(Model):
    """A query, and its answers against the batch computation."""

    query: str
    text: str
    judgement: Judgement


FEW = 0.01
"""Share of windows with so few events that none of them may be read."""


class EstimateReport(QueryReport):
    """A query that is content with estimates. Its answers are judged by their number, and by these shares."""

    max_error: float
    confidence: float
    within: float
    """Share of answers that are off by `max_error` of the true value at most."""
    covered: float
    """Share of answers whose interval holds the true value."""
    sampled: float
    """Mean share of events that an answer was computed from."""

    @property
    def kept(self) -> bool:
        """True if the promise was kept. A window of which no event was read has no answer: there are few."""
        found = self.judgement
        is_once = not (found.duplicated or found.unexpected) and found.lost <= FEW * found.expected
        return is_once and self.within >= self.confidence


class Crossing(Model):
    """Bytes that crossed the links while departures were sent."""

    what: str
    events: int
    """Departures of all airports."""
    seconds: float
    """From the first event to the last answer that followed."""
    link_bytes: dict[str, int]
    """Site → bytes over its link to the hub, in both directions, heartbeats and commands included."""

    def per_event(self, sites: Sequence[str]) -> float:
        """Return the bytes over these sites' links for each event."""
        return sum(self.link_bytes[site] for site in sites) / self.events if self.events else 0.0

    def beyond(self, idle: Crossing, sites: Sequence[str]) -> float:
        """Return the bytes over these sites' links for each event, beyond what crosses when nothing runs."""
        usual = sum(idle.link_bytes[site] for site in sites) / idle.seconds * self.seconds
        return max(self.per_event(sites) - usual / self.events, 0.0) if self.events else 0.0


class Gap(Model):
    """The longest time without an answer around a move, seconds."""

    job: str
    """That moved."""
    before_s: float
    """Of as long a time before the move."""
    around_s: float
    """From its beginning to a few seconds after its end."""


class SampledReport(Model):
    """A query on a share of the events."""

    query: str
    events: int
    """All events with a value."""
    read: int
    """Those that were chosen."""


class FigureReport(QueryReport):
    """A query that RAINBOW printed."""

    figure: int
    on: str
    """The origin of its events: the mesh's own metrics, or a generator's."""


class QueriesReport(Model):
    """The whole run."""

    sites: list[str]
    """With events."""
    rate: float
    """Events per second at each airport, in the mean."""
    seconds_sent: float
    days: float
    """Of the timetable that were sent in that time."""
    events: int
    events_at: dict[str, int]
    """Site → its part of these."""
    plan: list[SitePart]
    queries: list[QueryReport]
    sampled: SampledReport
    moves: list[MoveReport]
    gaps: list[Gap]
    """Of each move."""
    idle: Crossing
    """While nothing runs."""
    crossings: list[Crossing]
    """One query alone, and raw events."""
    estimates: list[EstimateReport]
    figures: list[FigureReport]
    problems: list[str] = []
    """Everything else that was not as expected."""
    seconds: float = 0.0
    """Of the whole run, start and stop of the mesh included."""

    @property
    def judged(self) -> Judgement:
        """All queries whose answers must be equal to the batch computation's."""
        return Judgement.together(each.judgement for each in [*self.queries, *self.figures])

    def bytes_per_event(self) -> dict[str, float]:
        """Return, for each thing that was measured, the bytes over the airports' links for each event."""
        return {each.what: each.per_event(self.sites) for each in self.crossings}

    def bytes_beyond_idle(self) -> dict[str, float]:
        """Return the same without what crosses when nothing runs: heartbeats and measurements."""
        return {each.what: each.beyond(self.idle, self.sites) for each in self.crossings}

    @property
    def clean(self) -> bool:
        """True if every answer came exactly once and right, and estimates kept their promise."""
        exact = all(each.judgement.exact for each in [*self.queries, *self.figures])
        answered = all(each.judgement.results for each in [*self.queries, *self.estimates])
        return exact and answered and all(each.kept for each in self.estimates) and not self.problems
