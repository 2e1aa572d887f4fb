"""The time ahead: what is expected of sites, links and rates, cut into phases without a change."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from towpath.placement.jobs.view import Link, MeshView, Site


class Cause(StrEnum):
    """Reason why a site will serve its jobs worse, or at another price."""

    DOWN = "down"
    """It is announced that the site does not run: maintenance."""
    LINK = "link"
    """It is announced that its links are gone: a tunnel."""
    COVERAGE = "coverage"
    """It is a vehicle, and had no link where it will be."""
    BATTERY = "battery"
    """Its battery will be empty."""
    PRICE = "price"
    """It is announced that energy has another price."""


DEADLY = frozenset({Cause.DOWN, Cause.BATTERY})
"""Causes with which a site does not run."""


@dataclass(frozen=True)
class Window:
    """Seconds from now in which a site is different."""

    site: str
    cause: Cause
    from_s: float
    to_s: float
    factor: float = 1.0
    """Of a price: so many times the usual one."""

    def covers(self, at_s: float) -> bool:
        """True if it has begun and not ended at a time."""
        return self.from_s <= at_s < self.to_s


@dataclass(frozen=True)
class Phase:
    """A part of the time ahead. A site that does not run has no cores in its view, a lost link is missing."""

    seconds: float
    view: MeshView


@dataclass(frozen=True)
class Outlook:
    """Everything that a decision knows of the time ahead."""

    phases: tuple[Phase, ...]
    """One after the other, from now on."""
    waiting: Mapping[str, float] = field(default_factory=dict[str, float])
    """Job → work that waits now, core-seconds: its backlog."""

    @property
    def seconds(self) -> float:
        """The length of all phases."""
        return sum(phase.seconds for phase in self.phases)


def outlook(
    view: MeshView,
    seconds: float,
    rates: Mapping[str, Sequence[float]],
    step_s: float,
    windows: Iterable[Window] = (),
    waiting: Mapping[str, float] | None = None,
) -> Outlook:
    """Return the outlook from a view of now.

    `rates` has for each source its events/s in steps of `step_s` from now on; the last one holds on. A source
    that is missing keeps its rate.
    """
    known = [window for window in windows if window.to_s > 0 and window.from_s < seconds]
    steps = max(map(len, rates.values()), default=1)
    edges = {0.0, seconds, *(number * step_s for number in range(1, steps))}
    edges |= {edge for window in known for edge in (window.from_s, window.to_s)}
    times = sorted(edge for edge in edges if 0 <= edge <= seconds)
    phases = [
        Phase(end - begin, _at(view, begin, rates, step_s, known)) for begin, end in itertools.pairwise(times)
    ]
    return Outlook(tuple(_joined(phases)), dict(waiting or {}))


def _at(
    view: MeshView, at_s: float, rates: Mapping[str, Sequence[float]], step_s: float, windows: list[Window]
) -> MeshView:
    """Return the view as it will be."""
    present = [window for window in windows if window.covers(at_s)]
    dead = {window.site for window in present if window.cause in DEADLY}
    alone = {window.site for window in present if window.cause is not Cause.PRICE}
    prices = {window.site: window.factor for window in present if window.cause is Cause.PRICE}
    number = int(at_s / step_s + 1e-9)
    sources = (
        replace(source, events_per_s=course[min(number, len(course) - 1)])
        if (course := rates.get(source.name))
        else source
        for source in view.sources
    )
    return replace(
        view,
        sites=tuple(
            _dead(site) if site.name in dead else _priced(site, prices.get(site.name)) for site in view.sites
        ),
        links=tuple(link for link in view.links if not _touches(link, alone)),
        sources=tuple(sources),
    )


def _dead(site: Site) -> Site:
    return replace(site, cores=0.0, idle_w=0.0, active_w=0.0)


def _priced(site: Site, factor: float | None) -> Site:
    return site if factor is None else replace(site, energy_price=factor)


def _touches(link: Link, sites: set[str]) -> bool:
    return link.origin in sites or link.target in sites


def _joined(phases: Iterable[Phase]) -> Iterator[Phase]:
    """Yield phases, those that follow each other with the same view as one."""
    last: Phase | None = None
    for phase in phases:
        if last is not None and last.view == phase.view:
            last = replace(last, seconds=last.seconds + phase.seconds)
            continue
        if last is not None:
            yield last
        last = phase
    if last is not None:
        yield last
