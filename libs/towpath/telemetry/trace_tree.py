"""Examine a trace as a whole: its tree, and its orphans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from towpath.contracts.traces import Span
from towpath.telemetry.shipping import UNFINISHED


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
