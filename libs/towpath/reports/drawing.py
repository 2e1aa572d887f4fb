"""Pictures of reports: drawn with matplotlib, put into the page as SVG whose colours follow the page's."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from towpath.reports.markup import element

INK, QUIET, LINE = "#1f2937", "#9ca3af", "#d1d5db"
BAND, DEVIATED, FAULT = "#fde68a", "#fee2e2", "#dc2626"
COLOURS = ("#2563eb", "#db2777", "#059669", "#d97706", "#7c3aed", "#0891b2")
"""For what is to be told apart, in this order; beyond, they begin anew."""

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
    # Text stays text: it can be read aloud, searched and copied, and the file is a tenth as large.
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
"""Colour of a drawing → what the page's style sheet calls it, for light and for dark."""

_COLOUR = re.compile("|".join(_VARIABLES))
_REFERENCE = re.compile(r"url\(#|^#")


def colour(position: int) -> str:
    """The colour of what stands at that place."""
    return COLOURS[position % len(COLOURS)]


def beside(axis: Axes, at: float, row: float, text: str, size: float = 8) -> None:
    """Write something to the right of a bar that ends `at`."""
    offset = {"xytext": (3, 0), "textcoords": "offset points"}
    axis.annotate(text, (at, row), va="center", fontsize=size, annotation_clip=False, **offset)


@contextmanager
def drawn(rows: int = 1, *, height: float, **layout: Any) -> Iterator[tuple[Figure, list[Any]]]:
    """A figure as wide as the page and `height` inches high, with `rows` axes one below the other.

    It is closed in the end: `illustration` must have taken it before.
    """
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(rows, 1, figsize=(10, height), squeeze=False, **layout)
        try:
            yield figure, list(axes[:, 0])
        finally:
            plt.close(figure)


def illustration(figure: Figure, name: str, *, alt: str, caption: str) -> Element:
    """A drawing with its caption.

    `name` must be unique on the page: what parts of the drawing are called begins with it. `alt` tells what
    is seen to who cannot see it.
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
    """The same as elements of HTML: without namespaces, and with names that no other drawing has."""
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
