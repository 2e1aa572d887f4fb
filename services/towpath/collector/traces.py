"""Assemble traces when they are asked for. Every place keeps the spans of its own processes."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime

from towpath.bus import Bus
from towpath.collector.span_reading import (
    PlaceAway,
    backwards_at_hub,
    newest_events_at,
    spans_of,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.traces import EventSpan, ListTraces, ShowTrace, Span, Trace, TraceList, TraceSummary
from towpath.telemetry.trace_tree import merged
from towpath.telemetry.tracing import span_of

AT_ONCE = 16
"""Traces of a list that are assembled at the same time."""

EVENT_SPANS = 8
"""Spans read per trace of a single event. Such a trace has about half as many."""

KINDS = ("operation", "apply", "run")
"""Subjects of traces. Each has a span whose id follows from its own."""

Gathered = tuple[list[Span], dict[str, str]]
"""Spans, and places that did not answer, with the reason."""


class Traces:
    """Answers the commands about traces."""

    def __init__(self, bus: Bus, sites: Callable[[], Iterable[str]]) -> None:
        self._bus = bus
        self._sites = sites
        """Blocks, because it reads the mesh's state."""

    async def serve(self) -> None:
        """Subscribe to both commands."""
        await self._bus.serve(ShowTrace, self.show)
        await self._bus.serve(ListTraces, self.newest)

    async def show(self, command: ShowTrace) -> Trace:
        """Return a trace in full. Raises `TowpathError` (unknown trace) if no place has a span of it."""
        about = command.about
        trace = about if re.fullmatch(r"[0-9a-f]{32}", about) else await self._trace_about(about)
        spans, unreached = ([], {}) if trace is None else await self._everything(trace)
        if trace is None or not spans:
            away = f"; no answer from {', '.join(sorted(unreached))}" if unreached else ""
            raise TowpathError(
                ErrorCode.UNKNOWN_TRACE,
                f"no place has a span of this trace{away}",
                field="about",
                value=about,
                allowed="`towpath traces` lists traces",
            )
        return Trace(trace=trace, spans=spans, unreached=unreached)

    async def newest(self, command: ListTraces) -> TraceList:
        """Return the newest traces in summary."""
        if command.events:
            return await self._newest_events(command.limit)
        places, slots = await self._places(), asyncio.Semaphore(AT_ONCE)

        async def whole(trace: str) -> Gathered:
            async with slots:
                return await self._whole(trace, places)

        identifiers = await self._newest_identifiers(command.limit)
        found = await asyncio.gather(*(whole(trace) for trace in identifiers))
        return _listed(
            {trace: spans for trace, (spans, _) in zip(identifiers, found, strict=True)},
            {site: why for _, unreached in found for site, why in unreached.items()},
        )

    async def _newest_identifiers(self, limit: int) -> list[str]:
        """Return traces with spans at the hub, the one with the newest span first."""
        found: dict[str, None] = {}
        async for trace, _ in backwards_at_hub(self._bus.connection):
            found.setdefault(trace)
            if len(found) >= limit:
                break
        return [*found]

    async def _newest_events(self, limit: int) -> TraceList:
        sites = [place for place in await self._places() if place != HUB_SCOPE]
        connection, count = self._bus.connection, limit * EVENT_SPANS
        spans, unreached = await _from_all(sites, lambda site: newest_events_at(connection, site, count))
        events = {trace: own for trace, own in by_trace(spans).items() if is_of_event(own)}
        found = _listed(events, unreached)
        return found.model_copy(update={"traces": found.traces[:limit]})

    async def _trace_about(self, about: str) -> str | None:
        """Return the trace with a span about an operation, an apply or a run."""
        wanted = {span_of(kind, about) for kind in KINDS}
        async for trace, span in backwards_at_hub(self._bus.connection):
            if span in wanted:
                return trace
        return None

    async def _whole(self, trace: str, places: list[str]) -> Gathered:
        connection = self._bus.connection
        spans, unreached = await _from_all(places, lambda place: spans_of(connection, place, trace))
        return merged(spans), unreached

    async def _everything(self, trace: str) -> Gathered:
        """Return also spans of a single event: a device may have begun the trace of later commands."""
        places, connection = await self._places(), self._bus.connection
        (commands, away), (events, also_away) = await asyncio.gather(
            self._whole(trace, places),
            _from_all(places, lambda place: spans_of(connection, place, trace, EventSpan)),
        )
        return merged([*commands, *events]), away | also_away

    async def _places(self) -> list[str]:
        return [HUB_SCOPE, *sorted(await asyncio.to_thread(self._sites))]


async def _from_all(places: list[str], ask: Callable[[str], Awaitable[list[Span]]]) -> Gathered:
    """Ask all places at once."""
    spans: list[Span] = []
    unreached: dict[str, str] = {}

    async def one(place: str) -> None:
        try:
            spans.extend(await ask(place))
        except PlaceAway as away:
            unreached[place] = str(away)

    await asyncio.gather(*(one(place) for place in places))
    return spans, unreached


def _listed(traces: dict[str, list[Span]], unreached: dict[str, str]) -> TraceList:
    summaries = [summary(trace, merged(spans)) for trace, spans in traces.items() if spans]
    newest_first = sorted(summaries, key=lambda one: one.begun_at, reverse=True)
    return TraceList(traces=newest_first, unreached=unreached)


OPERATION = "towpath.operation"

STORED = "stored"
"""First span of a single event's trace: on its way from the device to the site's log."""


def summary(trace: str, spans: Sequence[Span]) -> TraceSummary:
    """Return a trace in one line. It must have at least one span."""
    begun_ns = min(span.begun_ns for span in spans)
    first = min(spans, key=lambda span: (span.parent is not None, span.begun_ns))
    return TraceSummary(
        trace=trace,
        name=first.name,
        service=first.service,
        begun_at=datetime.fromtimestamp(begun_ns / 1e9, UTC),
        duration_s=(max(span.ended_ns for span in spans) - begun_ns) / 1e9,
        spans=len(spans),
        failed=sum(span.error is not None for span in spans),
        operation=_operation(spans),
    )


def _operation(spans: Sequence[Span]) -> str | None:
    """Return the operation of a trace. Of an apply with many operations, it is the first."""
    about = [span for span in spans if span.name.startswith("operation ") and OPERATION in span.attributes]
    return str(min(about, key=lambda span: span.begun_ns).attributes[OPERATION]) if about else None


def by_trace(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """Return the spans of each trace."""
    found: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        found[span.trace].append(span)
    return dict(found)


def is_of_event(spans: Sequence[Span]) -> bool:
    """True if the trace is that of a single event and contains its beginning."""
    return any(span.name == STORED and "towpath.serial" in span.attributes for span in spans)
