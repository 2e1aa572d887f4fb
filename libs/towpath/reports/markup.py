"""HTML as a tree of elements: everything that is text is escaped, because nothing is ever pasted together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

Content = Element | str | None
"""What stands in an element: None stands for nothing."""


def element(tag: str, *content: Content, **attributes: str) -> Element:
    """An element. An attribute whose name is a word of Python's has `_` behind it, as in `class_`."""
    made = Element(tag, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()})
    for part in content:
        append(made, part)
    return made


def append(parent: Element, part: Content) -> None:
    """Put something behind what an element has already."""
    if part is None:
        return
    if isinstance(part, Element):
        parent.append(part)
    elif len(parent):
        parent[-1].tail = (parent[-1].tail or "") + part
    else:
        parent.text = (parent.text or "") + part


def section(title: str, *content: Content, level: int = 2) -> Element:
    """A part of a page under its title."""
    return element("section", element(f"h{level}", title), *content)


def paragraph(text: str, **attributes: str) -> Element:
    """A paragraph."""
    return element("p", text, **attributes)


def listed(texts: Iterable[str]) -> Element:
    """A list of texts."""
    return element("ul", *(element("li", text) for text in texts))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str) -> Element:
    """A table; None is written as a dash. Numbers are set to the right, and so is what stands above them."""
    lines = list(rows)
    heads = [
        element("th", name, scope="col", **_aligned(lines[0][place] if lines else None))
        for place, name in enumerate(columns)
    ]
    body = [element("tr", *map(_cell, line)) for line in lines]
    parts = [element("thead", element("tr", *heads)), element("tbody", *body)]
    made = element("table", element("caption", caption), *parts)
    # Wide tables scroll by themselves: the page does not.
    return element("div", made, class_="wide")


def _aligned(value: object) -> dict[str, str]:
    return {"class": "number"} if isinstance(value, int | float) and not isinstance(value, bool) else {}


def _cell(value: object) -> Element:
    if isinstance(value, Element):
        return element("td", value)
    text = "–" if value is None else f"{value:,}" if _aligned(value) else str(value)
    return element("td", text, **_aligned(value))
