"""Stored values: numbers with a time, kept at the site that they come from, and asked for anywhere.

A value belongs to a series: a metric of an entity at a site. Sites measure some, applications publish some to
the topic `site/metrics`, and the answers of queries are some. After RAINBOW's storage fabric.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import AwareDatetime, Field, FiniteFloat, model_validator

from towpath.contracts.message import ROOT, Command, JobName, Model, Scope, SiteName, is_unused
from towpath.contracts.metrics import MAX_POINTS, Pattern

REGION_MB = 256
KEPT_H = 168.0


class StorageSpec(Model):
    """Values that every site of a mesh stores.

    A mesh that exists keeps what it has when this is left out.
    """

    enabled: bool = False
    """Run a storage service at each site."""
    kept_h: float = Field(default=KEPT_H, gt=0)
    """Hours for which a value is kept after it came, however old it was then."""
    disk_mb: int = Field(default=REGION_MB, ge=1)
    """Bound of what is on disk at a site. The oldest values go first."""
    memory_mb: int = Field(default=REGION_MB, ge=1)
    """Bound of transient values at a site, which are only in memory."""
    results: list[Pattern] = ["queries/*"]
    """Topics of jobs whose results are stored, too; `*` stands for any characters but `/`."""
    copies_every_s: float = Field(default=1800.0, gt=0)
    """Seconds between two decisions which sites fail often, and which others keep copies of their values."""
    unstable_from_per_day: float = Field(default=1.0, gt=0)
    """Least instability of a site whose values are copied, see `docs/data-placement.md`."""
    beta_s: float | None = Field(default=None, gt=0)
    """Staleness of an answer, in seconds, that is as bad as twice its latency. Null: values of a site are
    read at the site as long as it answers, and never at a copy that is nearer to the hub."""
    copies_per_site: int = Field(default=5, ge=0)
    """Most copies of other sites' values at a site from which one more is made to be nearer to the hub."""


class Wanted(StrEnum):
    """Form of an answer."""

    LATEST = "latest"
    """The newest value of each series."""
    RANGE = "range"
    """All values of a time."""
    AGGREGATE = "aggregate"
    """Count, sum, least, greatest and mean of a time, of each series and of all together."""
    LIST = "list"
    """The series, without values."""


class ValueSelection(Model):
    """Which series, which time, and what of it. A series must match each list; lists may be left out."""

    wanted: Wanted = Wanted.LATEST
    metrics: list[Pattern] = Field(default=["*"], min_length=1, max_length=50)
    entities: list[Pattern] = Field(default=["*"], min_length=1, max_length=50)
    """Such as `node:jfk`, `pod:engine`, `query:delays`."""
    groups: list[Pattern] = Field(default=["*"], min_length=1, max_length=50)
    since: AwareDatetime | None = None
    """Values from then on; null: all that are kept."""
    until: AwareDatetime | None = None
    """Values before then; null: up to now."""
    limit: int = Field(default=20_000, ge=1, le=MAX_POINTS)
    """At most so many values, over all series; more are refused, not cut off."""

    @model_validator(mode="after")
    def _range_fits(self) -> ValueSelection:
        timed = self.wanted in (Wanted.RANGE, Wanted.AGGREGATE)
        if not timed and (self.since is not None or self.until is not None):
            raise ValueError(f"{self.wanted} has no since and until: they are of range and aggregate")
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise ValueError("until must be later than since")
        return self


class ValueSummary(Model):
    """Values in few numbers."""

    count: int = Field(ge=1)
    sum: FiniteFloat
    min: FiniteFloat
    max: FiniteFloat

    @property
    def mean(self) -> float:
        """The arithmetic mean."""
        return self.sum / self.count


class ValueSeries(Model):
    """Values of one metric of one entity at one site, by time."""

    site: SiteName
    """Where they were stored first."""
    entity: str
    metric: str
    unit: str = ""
    group: str = ""
    description: str = ""
    labels: dict[str, str] = {}
    """Names that came with the values, such as `podNamespace`."""
    transient: bool = False
    """They are only in memory, and gone when their storage ends."""
    points: list[tuple[FiniteFloat, FiniteFloat]] = []
    """Unix seconds and value."""
    summary: ValueSummary | None = None
    """Of an aggregate."""


class ValueSeriesList(Model):
    """The series that were asked for, by site, entity and metric."""

    series: list[ValueSeries]
    summary: ValueSummary | None = None
    """Of an aggregate: all series together. Null: there is no value."""
    unreached: dict[str, str] = {}
    """Site whose values are not in here → why."""
    copies: dict[str, str] = {}
    """Site → the one whose copy of its values is in here, because the site does not answer or is far away."""
    nearer: list[SiteName] = []
    """Those of `copies` that were not asked, because the copy is nearer."""
    shares: dict[str, float] = {}
    """Site → share of its values that is in here, if only a share was asked for."""


_SELECTION: dict[str, Any] = {
    "wanted": "range",
    "metrics": ["cpu_ptc"],
    "entities": ["node:*"],
    "since": "2026-01-01T00:00:00Z",
}


class QueryValues(ValueSelection, Command[ValueSeriesList]):
    """Stored values from anywhere in the mesh, as if there were one store."""

    subject = f"{ROOT}.command.collector.query-values"
    answer = ValueSeriesList
    example = {"id": "v1", "sites": ["jfk"], **_SELECTION}

    sites: list[Scope] | None = Field(default=None, max_length=1000)
    """Only what is stored there; null: at all sites."""
    share: float = Field(default=1.0, ge=0.1, le=1)
    """Of a range: least mean over the sites of the share of their values. Less than 1 drops values of far
    sites, evenly over each series."""


class ReadValues(ValueSelection, Command[ValueSeriesList]):
    """Collector to storage: values that the site keeps."""

    subject = f"{ROOT}.command.{{site}}.read-values"
    answer = ValueSeriesList
    example = {"id": "v2", "site": "jfk", **_SELECTION}

    site: SiteName
    of: SiteName | None = None
    """Site whose values are asked for, of which this one has a copy; null: its own."""
    complete: bool = False
    """Of a copy: refuse, unless it has what its owner has."""
    share: float = Field(default=1.0, gt=0, le=1)
    """Of a range: share of each series to answer with."""


class ValueStream(Model):
    """A stream that has values."""

    name: str
    created: str
    """Time of its creation, as its server writes it: one that is made again is another."""
    job: JobName | None = None
    """Of results; null: its events are those of `site/metrics`."""
    after: int = Field(default=0, ge=0, exclude_if=is_unused)
    """Its values begin after this serial number: before, the stream was at another site."""


class ValueCopy(Model):
    """A copy of the values of a site."""

    owner: SiteName
    streams: list[ValueStream] | None = None
    """Null: those that are copied already. The owner does not answer, and no one knows better."""
    sources: dict[str, float] | None = None
    """Sources of the owner's values, as it named them last in `CopiesKept`. Null: those told before."""


class CopiesKept(Model):
    """The copies that a site has now."""

    owners: list[SiteName]
    sources: dict[str, float] = {}
    """Streams from which the site's own values are, some of which may be gone → Unix time at which the last
    value came."""


class KeepCopies(Command[CopiesKept]):
    """Collector to storage: these are the copies to keep. Others are deleted."""

    subject = f"{ROOT}.command.{{site}}.keep-copies"
    answer = CopiesKept
    example = {
        "id": "v3",
        "site": "cloud",
        "copies": [
            {
                "owner": "jfk",
                "streams": [{"name": "METRICS", "created": "2026-01-01T00:00:00Z"}],
                "sources": {"METRICS 2026-01-01T00:00:00Z": 1767225600.0},
            },
        ],
    }

    site: SiteName
    copies: list[ValueCopy]


VALUE_COMMANDS: tuple[type[Command[Any]], ...] = (QueryValues,)
"""Served by the collector."""

SITE_VALUE_COMMANDS: tuple[type[Command[Any]], ...] = (ReadValues, KeepCopies)
"""Served by the storage of a site."""
