"""One HTML file that contains everything it shows: no script, font or picture comes from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from importlib import resources
from pathlib import Path
from xml.etree.ElementTree import Element, tostring

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.reports.markup import element, paragraph

STYLE_SHEET = "page.css"


def page(title: str, lead: str, content: Iterable[Element], *, made_at: datetime) -> str:
    """Return the text of a file. `title` is set in large letters, and `lead` is the sentence below it."""
    style = resources.files("towpath.reports").joinpath(STYLE_SHEET).read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", style),
    )
    written = f"Written by Towpath on {made_at.astimezone():%d %B %Y at %H:%M:%S %Z}."
    body = element(
        "body",
        element("main", element("h1", title), paragraph(lead, class_="lead"), *content),
        element("footer", written),
    )
    root = element("html", head, body, lang="en")
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def write_page(path: Path, text: str) -> Path:
    """Write a page to a file and create its directories. Raises `TowpathError` (failed) if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TowpathError(
            ErrorCode.FAILED,
            f"the report cannot be written: {error.strerror}",
            field="output",
            value=str(path),
            allowed="a file that may be written",
        ) from error
    return path
