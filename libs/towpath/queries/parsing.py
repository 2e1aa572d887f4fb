"""Read a query text. `grammar.lark` is the one place that says what a text may look like."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError

from towpath.contracts.errors import TowpathError
from towpath.contracts.operators import MAX_QUERY_TEXT
from towpath.queries.problems import problem
from towpath.queries.tree import Place, QueryText
from towpath.queries.tree_builder import tree_builder

MAX_NESTING = 50
"""Parentheses and signs inside each other and values in a row, together: recursive functions walk trees."""

_WORDS = {
    "NAME": "a name",
    "STRING": "a text in quotation marks",
    "INTEGER": "a whole number",
    "DECIMAL": "a number",
    "COMPARISON": "> < == != >= <=",
    "PLUS_MINUS": "+ -",
    "TIMES_OVER": "* / %",
    "$END": "the end of the text",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "COMMA": ",",
    "EQUAL": "=",
    "COLON": ":",
    "SEMICOLON": ";",
    "MINUS": "-",
}
"""Terminal of the grammar → its name for people. A keyword is called by its name."""

_DEEPER = re.compile(r"[-+*/%(),]|\b(?:and|or|AND|OR|COMPUTE|compute)\b")
QUOTED_OR_COMMENT = re.compile(r'"[^"\n]*"|#[^\n]*|/\*.*?\*/', re.DOTALL)


def parse(text: str) -> QueryText:
    """Return the statements of a text.

    Raises `TowpathError` with line and column, what was found there, and what could stand there.
    """
    if len(text) > MAX_QUERY_TEXT:
        allowed = f"at most {MAX_QUERY_TEXT:,} characters"
        raise problem(Place(1, 1), "the text is too long", found=len(text), allowed=allowed)
    _check_depth(text)
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise _unexpected(error, text) from None
    except VisitError as error:
        if isinstance(error.orig_exc, TowpathError):
            raise error.orig_exc from None
        raise
    assert isinstance(tree, QueryText)
    return tree


@dataclass(frozen=True)
class Reached:
    """Where the grammar is at the end of a text that may be half written."""

    words: tuple[str, ...]
    """The terminals of the grammar so far."""
    accepted: frozenset[str]
    """Terminals that may come next."""


def reached(text: str) -> Reached | None:
    """Return where the grammar is at the end of a text; None if it has met a mistake before."""
    parser = _grammar().parse_interactive(text)
    try:
        words = tuple(token.type for token in parser.exhaust_lexer())
    except UnexpectedInput:
        return None
    return Reached(words, frozenset(parser.accepts()))


def tokens_of(text: str) -> list[Token]:
    """Return all words and signs of a correct text, with their places."""
    return [*_grammar().parse_interactive(text).exhaust_lexer()]


@functools.cache
def _parser() -> Lark:
    return _grammar(tree_builder())


@functools.cache
def _grammar(builder: Transformer[Any, Any] | None = None) -> Lark:
    grammar = files("towpath.queries").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", transformer=builder, maybe_placeholders=True)


def _check_depth(text: str) -> None:
    """Refuse what would make a tree too deep: parentheses inside each other, and operators in a row.

    `((a + b) * c) * d` is as deep as its operators and parentheses together.
    """
    plain = QUOTED_OR_COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    level = _Level()
    outer: list[_Level] = []
    for match in _DEEPER.finditer(plain):
        word = match.group()
        if word == "(":
            outer.append(level)
            level = _Level()
        elif word == ")":
            inside, level = level.deepest + 1, outer.pop() if outer else _Level()
            level.inside = max(level.inside, inside)
        elif word == ",":
            level = _Level(earlier=level.deepest)
        elif word.upper() == "COMPUTE":
            level, outer = _Level(), []
        else:
            level.operators += 1
        if max(len(outer), level.deepest) > MAX_NESTING:
            what = "too many parentheses inside each other, or values in a row"
            raise problem(place_at(text, match.start()), what, found=word, allowed=f"at most {MAX_NESTING}")


@dataclass(slots=True)
class _Level:
    """The text between two parentheses."""

    operators: int = 0
    inside: int = 0
    """Depth of the deepest parentheses among them."""
    earlier: int = 0
    """Depth of what stands in front of the last comma."""

    @property
    def deepest(self) -> int:
        return max(self.operators + self.inside, self.earlier)


def place_at(text: str, position: int) -> Place:
    """Return the place behind so many characters of a text."""
    return Place(text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position))


def _unexpected(error: UnexpectedInput, text: str) -> TowpathError:
    if isinstance(error, UnexpectedToken):
        found, expected = str(error.token), error.accepts or error.expected
        if error.token.type == "$END":
            place = place_at(text, len(text))
            return problem(place, "the text ends too early", allowed=_words(expected))
        return problem(
            Place(error.line, error.column), f"{_cut(found)} cannot stand here", allowed=_words(expected)
        )
    assert isinstance(error, UnexpectedCharacters)
    found = text[error.pos_in_stream or 0]
    return problem(
        Place(error.line, error.column),
        f"{_cut(found)} cannot stand here",
        allowed=_words(error.allowed or set()),
    )


def _cut(found: str) -> str:
    return repr(found if len(found) <= 40 else f"{found[:40]}…")


def _words(terminals: set[str]) -> list[str]:
    return sorted({_WORDS.get(name) or name.removeprefix("_") for name in terminals})
