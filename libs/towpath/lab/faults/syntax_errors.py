"""Where an expression is wrong, for people: line, column, what stands there, and what may."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from lark import UnexpectedInput
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.faults.vocabulary import KEYWORDS

_EXCERPT = 30
"""Characters that an error shows on either side of its place."""

_SHOWN = {
    "NUMBER": "a number",
    "STRING": "a text in quotes",
    "NAME": "a name",
    "DURATION": "a time such as 30s (ms, s, m, h)",
    "COMPARISON": "== != < <= > >=",
    "SIGN": "+ -",
    "TIMES": "* / %",
    "DOT": ".",
    "COMMA": ",",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "$END": "the end",
}
_WORDS = {"TEXT_COMPARISON": ["startswith", "endswith", "contains", "matches"]}
_WORD = re.compile(r"\w+|[^\w\s]+")


def at(place: int, what: str, text: str, field: str, allowed: str | list[str] | None = None) -> TowpathError:
    """The error that `what` is wrong at the place, counted from 0, of an expression."""
    line = text.count("\n", 0, place) + 1
    column = place - (text.rfind("\n", 0, place) + 1) + 1
    before, after = text[max(0, place - _EXCERPT) : place], text[place : place + _EXCERPT]
    excerpt = " ".join(f"{before}^{after}".split())
    message = f"line {line}, column {column}: {what} in: {excerpt}"
    return TowpathError(ErrorCode.INVALID, message, field=field, value=text, allowed=allowed)


def unexpected(error: UnexpectedInput, text: str, field: str) -> TowpathError:
    """What the parser stumbled over, in our words."""
    if isinstance(error, UnexpectedToken):
        at_end = error.token.type == "$END"
        place = len(text.rstrip()) if at_end else error.token.start_pos or 0
        expected: Iterable[str] = error.accepts or error.expected
    else:
        at_end, place = False, error.pos_in_stream or 0
        expected = error.allowed or () if isinstance(error, UnexpectedCharacters) else ()
    allowed = _shown(expected)
    if at_end:
        return at(place, "something is missing", text, field, allowed)
    if text[place] in "\"'":
        return at(place, "a text whose quotes do not close", text, field, allowed)
    match = _WORD.match(text, place)
    found = match.group() if match else text[place]
    hint = nearest(found, allowed) or _misspelt_before(text[:place])
    return at(place, f"`{found}` cannot stand here{hint}", text, field, allowed)


def _misspelt_before(text: str) -> str:
    """A hint that the last word of `text`, which was taken for a name, was meant for a keyword."""
    words = re.findall(r"\w+", text)
    return "" if not words or words[-1] in KEYWORDS else nearest(words[-1], sorted(KEYWORDS))


def nearest(given: str, known: Iterable[str]) -> str:
    """`; did you mean …?` when a known word is much like the given one, else nothing."""
    close = difflib.get_close_matches(given, [*known], n=1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else ""


def _shown(terminals: Iterable[str]) -> list[str]:
    words: set[str] = set()
    for terminal in terminals:
        words.update(_WORDS.get(terminal, [_SHOWN.get(terminal, terminal.lower())]))
    return sorted(words)
