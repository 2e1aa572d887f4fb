"""Invented facts for reports, and the elements of an HTML page."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

from towpath.contracts.commands import (
    JournalEntry,
    MigrationFigures,
    MigrationForecast,
    OperationKind,
    OperationState,
    OperationView,
    StrategyName,
)
from towpath.contracts.metrics import Series
from towpath.contracts.metrics_table import METRICS_BY_NAME
from towpath.contracts.traces import Span, Trace
from towpath.protocols.strategies.handover import HANDOVER
from towpath.reports.facts import MigrationFacts, ReadSeries

BEGUN = datetime(2026, 1, 1, 12, tzinfo=UTC)
TOOK_S = 12.0
JOB, SOURCE, TARGET = "hourly-jfk", "jfk", "cloud"
REFERENCES = ("src", "href", "data", "action", "poster", "srcset", "xlink:href")


def journal() -> list[JournalEntry]:
    """Every step of a handover, one second each."""
    lines: list[JournalEntry] = []
    for position, step in enumerate(HANDOVER.steps[: int(TOOK_S)]):
        begun = BEGUN + timedelta(seconds=position)
        lines.append(JournalEntry(step=step.name, phase="begun", at=begun))
        done = begun + timedelta(seconds=0.9)
        lines.append(JournalEntry(step=step.name, phase="confirmed", at=done, detail={"files": position}))
    return lines


def view(**changes: Any) -> OperationView:
    """A handover that went well."""
    forecast = MigrationForecast(
        job=JOB,
        source=SOURCE,
        target=TARGET,
        strategy=StrategyName.HANDOVER,
        reason="its results depend on the events alone",
        total_s=8.0,
        state_bytes=1_000,
        basis="the last 3 handover migration(s)",
    )
    content: dict[str, Any] = {
        "operation": "5f0c9a7be210",
        "kind": OperationKind.MIGRATE,
        "job": JOB,
        "state": OperationState.COMPLETED,
        "strategy": StrategyName.HANDOVER,
        "source": SOURCE,
        "target": TARGET,
        "begun_at": BEGUN,
        "ended_at": BEGUN + timedelta(seconds=TOOK_S),
        "forecast": forecast,
        "figures": MigrationFigures(total_s=TOOK_S, downtime_s=0.0, state_bytes=245_528),
        "journal": journal(),
    }
    return OperationView(**(content | changes))


def series(metric: str, site: str, begin: float, end: float, value: float, job: str = JOB) -> Series:
    """Return values every two seconds, from `begin` seconds after the migration's begin on."""
    moments = range(int(begin), int(end), 2)
    points = [(BEGUN.timestamp() + at, value + math.sin(at)) for at in moments]
    return Series(
        site=site, entity=f"job:{job}", metric=metric, unit=METRICS_BY_NAME[metric].unit, points=points
    )


def measured(**changes: Any) -> ReadSeries:
    """The source until the migration ends, the target from its middle on."""
    found = [
        one
        for metric, value in (
            ("job.event_rate", 300.0),
            ("job.latency.end_to_end.p95", 2.0),
            ("job.backlog", 900.0),
        )
        for one in (series(metric, SOURCE, -60, 12, value), series(metric, TARGET, 6, 72, value * 1.1))
    ]
    return ReadSeries(**({"series": found} | changes))


def span(name: str, service: str, begin_s: float, end_s: float, **changes: Any) -> Span:
    """A span, seconds behind the migration's begin."""
    begun = int(BEGUN.timestamp() * 1e9)
    content = {
        **Span.example,
        "span": f"{abs(hash(name)):016x}"[:16],
        "name": name,
        "service": service,
        "begun_ns": begun + int(begin_s * 1e9),
        "ended_ns": begun + int(end_s * 1e9),
    }
    return Span.model_validate(content | changes)


def trace() -> Trace:
    """A command and what two agents did for it."""
    root = span("towpath migrate hourly-jfk", "cli", 0, 12.1, span="00" * 8)
    step = span("step ship-checkpoint", "coordinator", 1, 5, parent=root.span)
    batch = span("batch 17 <late>", "engine", 2, 3, parent=step.span, site="jfk", error="it was halted")
    return Trace(trace=root.trace, spans=[batch, root, step])


def facts(**changes: Any) -> MigrationFacts:
    """Return facts with every optional part."""
    content: dict[str, Any] = {"view": view(), "measured": measured(), "trace": trace()}
    return MigrationFacts(**(content | changes))


@dataclass
class Page(HTMLParser):
    """Elements of an HTML file."""

    titles: list[str] = field(default_factory=list)
    pictures: list[dict[str, str | None]] = field(default_factory=list)
    """Attributes of each."""
    references: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Values of `id`."""
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    @classmethod
    def of(cls, text: str) -> Page:
        page = cls()
        page.feed(text)
        page.close()
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append(tag)
        if tag in ("svg", "img"):
            self.pictures.append(attributes)
        if tag in ("h1", "h2", "h3"):
            self.titles.append("")
        self.references += [str(attributes[name]) for name in REFERENCES if name in attributes]
        self.names += [str(attributes["id"])] if "id" in attributes else []

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.tags and self.tags[-1] in ("h1", "h2", "h3") and self.titles[-1] == "":
            self.titles[-1] = data

    @property
    def external(self) -> list[str]:
        """References that lead out of the file."""
        return [one for one in self.references if not one.startswith(("#", "data:"))]


def check_self_contained(text: str) -> Page:
    """Return the page. It must need no other file, and describe its pictures in text."""
    page = Page.of(text)
    assert page.external == []
    assert "://" not in text
    assert "script" not in page.tags
    assert len(page.names) == len(set(page.names))
    assert all(f'#{name[1:]}"' not in text or name[1:] in page.names for name in page.references)
    for picture in page.pictures:
        assert picture.get("aria-label") or picture.get("alt")
    assert page.tags.count("figure") == page.tags.count("figcaption") == len(page.pictures)
    return page
