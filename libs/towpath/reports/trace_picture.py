"""Draw a trace as a waterfall: its spans as bars over time, each below its parent."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from matplotlib.axes import Axes

from towpath.contracts.traces import Span, Trace
from towpath.reports.drawing import FAULT, beside, colour, drawn, frame_bars, illustration
from towpath.telemetry.trace_tree import in_tree

MOST = 60
"""Most spans in a picture, so that people can read it. The text below says how many are drawn."""

NARROWEST = 0.003
LONGEST_NAME = 48

LABEL_POINTS = 7
CHARACTER_WIDTH = 0.55
"""Average width of a character, as a part of its height."""

INDENT = 3 * "\N{NO-BREAK SPACE}"
"""Indent of a label: ordinary spaces at the beginning of a text are not drawn."""


def trace_picture(trace: Trace, name: str) -> Element | None:
    """Draw a trace. None if it has no spans."""
    tree = in_tree(trace.spans)
    if not tree:
        return None
    shown = tree[:MOST]
    origin = min(span.begun_ns for _, span in tree)
    length = max((max(span.ended_ns for _, span in tree) - origin) / 1e9, 1e-3)
    services = sorted({span.service for _, span in tree})
    with drawn(height=0.9 + 0.19 * len(shown)) as (figure, [axis]):
        for position, (_, span) in enumerate(shown):
            begin, took = (span.begun_ns - origin) / 1e9, (span.ended_ns - span.begun_ns) / 1e9
            fill = colour(services.index(span.service))
            width, edge = max(took, NARROWEST * length), FAULT if span.error else fill
            axis.barh(position, width, left=begin, height=0.66, color=fill, edgecolor=edge, lw=1.0)
            beside(axis, begin + width, position, f"{1000 * took:,.0f} ms", size=7)
        _label_rows(axis, [_label(depth, span) for depth, span in shown])
        frame_bars(figure, axis, len(shown), length, services, "the first span began")
        told = _told(tree, length, services)
        return illustration(figure, name, alt=f"Bars over time, one for each span. {told}", caption=told)


def _label_rows(axis: Axes, labels: Sequence[str]) -> None:
    """Write names at the left edge, so that their depth shows."""
    for tick in axis.set_yticks(range(len(labels)), labels, fontsize=LABEL_POINTS):
        tick.label1.set_horizontalalignment("left")
    axis.tick_params(axis="y", length=0, pad=CHARACTER_WIDTH * LABEL_POINTS * max(map(len, labels)))


def _label(depth: int, span: Span) -> str:
    text = f"{span.name} ({span.site})"
    cut = text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
    return INDENT * depth + cut


def _told(tree: Sequence[tuple[int, Span]], length: float, services: Sequence[str]) -> str:
    root = tree[0][1]
    text = (
        f"{len(tree)} spans of {len(services)} services ({', '.join(services)}) in {length:.2f} s; it began "
        f"with “{root.name}” of {root.service}."
    )
    failed = [span for _, span in tree if span.error]
    if failed:
        text += f" {len(failed)} ended with an error, the first of them {failed[0].name}: {failed[0].error}."
    if len(tree) > MOST:
        text += f" The first {MOST} are drawn."
    return text
