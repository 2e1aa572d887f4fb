"""Build HTML as a tree of elements. All text is escaped, because strings are never concatenated to HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

Content = Element | str | None
"""Content of an element. None adds nothing."""


def element(tag: str, *content: Content, **attributes: str) -> Element:
    """Return an element. An attribute named like a word of Python takes a `_` at its end: `class_`."""
    made = Element(tag, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()})
    for part in content:
        append(made, part)
    return made


def append(parent: Element, part: Content) -> None:
    """Add a part at the end of an element."""
    if part is None:
        return
    if isinstance(part, Element):
        parent.append(part)
    elif len(parent):
        parent[-1].tail = (parent[-1].tail or "") + part
    else:
        parent.text = (parent.text or "") + part


def section(title: str, *content: Content, level: int = 2) -> Element:
    """Return a section of a page under its title."""
    return element("section", element(f"h{level}", title), *content)


def paragraph(text: str, **attributes: str) -> Element:
    """Return a paragraph."""
    return element("p", text, **attributes)


def listed(texts: Iterable[str]) -> Element:
    """Return a list of texts."""
    return element("ul", *(element("li", text) for text in texts))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str) -> Element:
    """Return a table. None becomes a dash. Numbers and their column titles are aligned right."""
    lines = list(rows)
    heads = [
        element("th", name, scope="col", **_aligned(lines[0][place] if lines else None))
        for place, name in enumerate(columns)
    ]
    body = [element("tr", *map(_cell, line)) for line in lines]
    parts = [element("thead", element("tr", *heads)), element("tbody", *body)]
    made = element("table", element("caption", caption), *parts)
    # A wide table scrolls by itself, so that the page need not.
    return element("div", made, class_="wide")


def _aligned(value: object) -> dict[str, str]:
    return {"class": "number"} if isinstance(value, int | float) and not isinstance(value, bool) else {}


def _cell(value: object) -> Element:
    if isinstance(value, Element):
        return element("td", value)
    text = "–" if value is None else f"{value:,}" if _aligned(value) else str(value)
    return element("td", text, **_aligned(value))
