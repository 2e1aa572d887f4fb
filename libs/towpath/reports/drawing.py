"""Draw pictures with matplotlib, and put them into the page as SVG that follows the page's colours."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from towpath.reports.markup import element

INK, QUIET, LINE = "#1f2937", "#9ca3af", "#d1d5db"
BAND, DEVIATED, FAULT = "#fde68a", "#fee2e2", "#dc2626"
COLOURS = ("#2563eb", "#db2777", "#059669", "#d97706", "#7c3aed", "#0891b2")
"""Colours of sites, services and actors, in this order. After the last they begin again."""

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "font.family": ["DejaVu Sans"],
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    # Text stays text. So it can be read aloud, searched and copied, and the file is a tenth as large.
    "svg.fonttype": "none",
}

_VARIABLES = {
    "#000000": "currentColor",
    INK: "currentColor",
    QUIET: "var(--quiet)",
    LINE: "var(--line)",
    BAND: "var(--band)",
    DEVIATED: "var(--deviated)",
    FAULT: "var(--fault)",
    **dict(
        zip(
            COLOURS,
            (f"var(--{name})" for name in ("first", "second", "third", "fourth", "fifth", "sixth")),
            strict=True,
        )
    ),
}
"""Colour of a drawing → its name in the page's style sheet, for light and for dark."""

_COLOUR = re.compile("|".join(_VARIABLES))
_REFERENCE = re.compile(r"url\(#|^#")


def colour(position: int) -> str:
    """Return the colour of a position. Colours repeat after the last one."""
    return COLOURS[position % len(COLOURS)]


def beside(axis: Axes, at: float, row: float, text: str, size: float = 8) -> None:
    """Write text to the right of a bar that ends at `at`."""
    offset = {"xytext": (3, 0), "textcoords": "offset points"}
    axis.annotate(text, (at, row), va="center", fontsize=size, annotation_clip=False, **offset)


def frame_bars(
    figure: Figure, axis: Axes, bars: int, length: float, names: Sequence[str], since: str
) -> None:
    """Frame bars over `length` seconds, one below the other, and name their colours in a legend."""
    axis.set_ylim(bars - 0.4, -0.6)
    axis.set_xlim(0, length * 1.12)
    axis.set_xlabel(f"seconds since {since}")
    axis.grid(axis="x", color=LINE, lw=0.5)
    axis.set_axisbelow(True)
    handles = [Patch(color=colour(position), label=name) for position, name in enumerate(names)]
    figure.legend(handles=handles, loc="upper right", frameon=False, ncols=len(names), fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.25 / figure.get_figheight()))


@contextmanager
def drawn(rows: int = 1, *, height: float, **layout: Any) -> Iterator[tuple[Figure, list[Any]]]:
    """Open a figure as wide as the page and `height` inches high, with `rows` axes one below the other.

    It is closed at the end of the block, so call `illustration` inside.
    """
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(rows, 1, figsize=(10, height), squeeze=False, **layout)
        try:
            yield figure, list(axes[:, 0])
        finally:
            plt.close(figure)


def illustration(figure: Figure, name: str, *, alt: str, caption: str) -> Element:
    """Return a drawing with its caption.

    `name` must be unique on the page, because the ids of the drawing's parts begin with it. `alt` describes
    the drawing to people who cannot see it.
    """
    buffer = io.BytesIO()
    with plt.rc_context(STYLE):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawing = _inlined(ElementTree.fromstring(buffer.getvalue()), name)
    drawing.insert(0, element("title", alt))
    drawing.attrib |= {"role": "img", "aria-label": alt}
    for measure in ("width", "height", "version"):
        drawing.attrib.pop(measure, None)
    return element("figure", drawing, element("figcaption", caption))


def _inlined(node: Element, name: str) -> Element:
    """Return the drawing as elements of HTML: without namespaces, and with ids that no other drawing has."""
    node.tag = _local(node.tag)
    node.attrib = {_local(key): _value(_local(key), value, name) for key, value in node.attrib.items()}
    for child in list(node):
        if _local(child.tag) == "metadata":
            node.remove(child)
        else:
            _inlined(child, name)
    return node


def _local(qualified: str) -> str:
    return qualified.rpartition("}")[2]


def _value(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if not value.startswith("data:"):
        value = _REFERENCE.sub(lambda found: f"{found[0]}{name}-", value)
    if key in ("style", "fill", "stroke"):
        value = _COLOUR.sub(lambda found: _VARIABLES[found[0]], value)
    return value
