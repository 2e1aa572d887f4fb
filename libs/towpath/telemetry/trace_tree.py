"""Examine a trace as a whole: its tree, its orphans, and the services it leads through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from towpath.contracts.traces import Span
from towpath.telemetry.shipping import UNFINISHED

BATCH = "batch"
"""Name of micro-batches' spans, before a number. They show Spark's work and come from the engine."""


def is_unfinished(span: Span) -> bool:
    """True if the span had not ended when it was published."""
    return UNFINISHED in span.attributes


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return each span once, by their begin. Of several records of a span, the one with its end counts."""
    found: dict[str, Span] = {}
    for span in spans:
        known = found.get(span.span)
        if known is None or is_unfinished(known):
            found[span.span] = span
    return sorted(found.values(), key=lambda span: (span.begun_ns, -span.ended_ns, span.span))


def in_tree(spans: Sequence[Span]) -> list[tuple[int, Span]]:
    """Return depth and span, each behind its parent. Spans whose parent is missing begin a tree."""
    known = {span.span for span in spans}
    children: defaultdict[str | None, list[Span]] = defaultdict(list)
    for span in merged(spans):
        children[span.parent if span.parent in known else None].append(span)
    return [*_below(None, 0, children)]


def _below(
    parent: str | None, depth: int, children: dict[str | None, list[Span]]
) -> Iterator[tuple[int, Span]]:
    for span in children.get(parent, ()):
        yield depth, span
        yield from _below(span.span, depth + 1, children)


def orphans(spans: Sequence[Span]) -> list[Span]:
    """Return spans whose parent is not in the trace. A complete trace has none."""
    known = {span.span for span in spans}
    return [span for span in spans if span.parent is not None and span.parent not in known]


def crossings(spans: Sequence[Span]) -> set[tuple[str, str]]:
    """Return pairs of services where work of the first led to work of the second, in another process.

    The micro-batches of an engine count as a service of their own here, `BATCH`.
    """
    by_id = {span.span: span for span in spans}
    pairs = ((by_id.get(span.parent or ""), span) for span in spans)
    return {
        (_service(parent), _service(child))
        for parent, child in pairs
        if parent is not None and (_service(parent), parent.site) != (_service(child), child.site)
    }


def _service(span: Span) -> str:
    return BATCH if span.name.startswith(f"{BATCH} ") else span.service
