"""Find the statements in a query text, and edit the text around them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from towpath.queries.parsing import tokens_of
from towpath.queries.tree import Place

_COMMENT = "#"
_BEGINNINGS = ("_STREAM", "_COMPUTE")


@dataclass(frozen=True)
class Span:
    """The characters of a statement, with the `;` behind it."""

    start: int
    end: int


@dataclass(frozen=True)
class Edit:
    """A replacement of characters of a text."""

    start: int
    end: int
    text: str = ""


def spans(text: str) -> dict[str, Span]:
    """Return where each statement of a correct text stands, by its name."""
    tokens = tokens_of(text)
    starts = [at - 2 for at, token in enumerate(tokens) if token.type in _BEGINNINGS]
    found = {}
    for first, after in zip(starts, [*starts[1:], len(tokens)], strict=True):
        name, last = tokens[first], tokens[after - 1]
        found[str(name)] = Span(name.start_pos or 0, last.end_pos or len(text))
    return found


def position_of(text: str, place: Place) -> int:
    """Return the number of characters before a place."""
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: place.line - 1]) + place.column - 1


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits that do not overlap."""
    parts, done = [], 0
    for edit in _ordered(edits):
        parts += [text[done : edit.start], edit.text]
        done = edit.end
    return "".join([*parts, text[done:]])


def position_before(position: int, edits: Iterable[Edit]) -> int:
    """Return where a character of an edited text stood before the edits."""
    for edit in _ordered(edits):
        if position < edit.start:
            break
        position = max(position - len(edit.text) + edit.end - edit.start, edit.start)
    return position


def _ordered(edits: Iterable[Edit]) -> list[Edit]:
    return sorted(edits, key=lambda edit: edit.start)


def cut(text: str, span: Span, *, with_comments: bool = False) -> Edit:
    """Return the edit that takes a statement out, with its line if nothing else stands there.

    The comments of a statement are those in its last line, and the lines of comments directly above it.
    """
    start, end = text.rfind("\n", 0, span.start) + 1, text.find("\n", span.end) + 1 or len(text)
    behind = text[span.end : end].strip()
    if with_comments and behind.startswith(_COMMENT):
        behind = ""
    if text[start : span.start].strip() or behind:
        return Edit(span.start, span.end)
    while with_comments and start:
        above = text.rfind("\n", 0, start - 1) + 1
        if not text[above:start].lstrip().startswith(_COMMENT):
            break
        start = above
    return Edit(start, end)
