"""Words that may stand at a place in a query text, which may be half written there and wrong elsewhere.

The grammar says which kinds of words come next. Names are those of the text itself, and those of the mesh.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from towpath.contracts.query import OfferKind, QueryOffer
from towpath.queries.functions import FUNCTIONS, NAMES
from towpath.queries.options import OPTIONS, POLICIES
from towpath.queries.parsing import QUOTED_OR_COMMENT, Reached, reached
from towpath.queries.providers import METRICS_PROVIDERS
from towpath.queries.tree_builder import UNIT_OF

Kind = OfferKind
Words = Mapping[OfferKind, Sequence[str]]

_UNITS = ("SECONDS", "MINUTES", "HOURS", "DAYS", "EVENTS")
_CLAUSES = ("STREAM", "FROM", "COMPUTE", "EVERY", "BY", "WHEN", "WITH", "AND", "OR", "IN", "INSIGHT")
_PARAMETERS = ("sites", "time", "delay", "value", "fields")
_OF_TOPICS, _OF_METRICS = ("topic",), ("metricID", "entityType", "nodeID", "podName", "podNamespace")
"""Parameters of one kind of provider, in front of those of all."""
_VALUES = (Kind.FUNCTION, Kind.STREAM, Kind.QUERY, Kind.FIELD)
"""Words that a value begins with."""

_QUOTED = {
    "topic": Kind.TOPIC,
    "sites": Kind.SITE,
    "site": Kind.SITE,
    "time": Kind.FIELD,
    "value": Kind.FIELD,
}
"""Parameter of a stream → what its text names."""

_WORD_BEFORE, _WORD_AFTER = re.compile(r"\w*\Z"), re.compile(r"\w*")
_TEXT_BEFORE = re.compile(r"[^\s,]*\Z")
_OPEN = re.compile(r'"[^"\n]*["\n]|#[^\n]*\n|/\*.*?\*/|(?P<mark>"|#|/\*)', re.DOTALL)
"""Quoted texts and comments; `mark` begins one that goes on to the end."""
_PARAMETER_BEFORE = re.compile(r"(\w+)\s*=\s*$")
_SCHEDULER = re.compile(r"\bSCHEDULER\s*=\s*\Z", re.IGNORECASE)
_PROVIDER = re.compile(r"\bFROM\s+(\w+)\s*\([^()]*\Z", re.IGNORECASE)
_DECLARED = re.compile(r"\b([A-Za-z_]\w*)\s*[=:]\s*(STREAM|COMPUTE)\b", re.IGNORECASE)
_STREAM = re.compile(r"\bSTREAM\s+FROM\s+\w+\s*\(([^)]*)", re.IGNORECASE)
_NAMED_FIELDS = re.compile(r'\b(?:time|value|fields)\s*=\s*"([^"\n]*)"|"(\w+)"\s+FROM\b', re.IGNORECASE)
_FIELD = re.compile(r"([A-Za-z_]\w*)\s*(?::\s*\w+)?")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


@dataclass(frozen=True)
class Offers:
    """Words that may stand at a cursor. They replace the text from `begin` to the cursor."""

    begin: int
    words: list[QueryOffer]


def offers(text: str, cursor: int, *, topics: Iterable[str], sites: Iterable[str]) -> Offers:
    """Return the words that may stand at a cursor."""
    before = text[:cursor]
    opened = next((match.start() for match in _OPEN.finditer(before) if match["mark"]), None)
    if opened is not None and before[opened] != '"':
        return Offers(len(before), [])
    word = _WORD_BEFORE if opened is None else _TEXT_BEFORE
    begin = _begin(word, before, opened)
    in_text = opened is not None
    kinds, clauses = (_named_in_text(before[:opened]), ()) if in_text else _next(before[:begin])
    words = {
        **_words_of(text[:begin] + text[_end(text, len(before)) :]),
        Kind.CLAUSE: clauses,
        Kind.PARAMETER: _parameters(before[:begin]),
        Kind.TOPIC: sorted({*topics}),
        Kind.SITE: ["*", *sorted({*sites})],
    }
    offered = [QueryOffer(text=word, kind=kind) for kind in (*kinds, Kind.CLAUSE) for word in words[kind]]
    return Offers(begin, offered)


def _begin(word: re.Pattern[str], before: str, opened: int | None) -> int:
    found = word.search(before, 0 if opened is None else opened + 1)
    assert found is not None, "an empty word is one, too"
    return found.start()


def _end(text: str, cursor: int) -> int:
    found = _WORD_AFTER.match(text, cursor)
    assert found is not None, "an empty word is one, too"
    return found.end()


def _named_in_text(before: str) -> list[OfferKind]:
    """Return what a quoted text names, by the parameter in front of it."""
    parameter = _PARAMETER_BEFORE.search(before)
    kind = _QUOTED.get(parameter[1]) if parameter else None
    return [kind] if kind else []


def _next(before: str) -> tuple[Sequence[OfferKind], Sequence[str]]:
    """Return the kinds of names that may follow, and the clauses; all where a mistake is in front."""
    at = reached(before)
    if at is None:
        return [*_VALUES, Kind.UNIT], _CLAUSES
    clauses = [clause for clause in _CLAUSES if f"_{clause}" in at.accepted]
    if _SCHEDULER.search(before) and "INTEGER" in at.accepted:
        return [Kind.POLICY], clauses
    return (_names(at) if "NAME" in at.accepted else []), clauses


def _names(at: Reached) -> Sequence[OfferKind]:
    """Return what a name may be that comes next; nothing where it is a new one, or that of a provider."""
    last = at.words[-1] if at.words else None
    if "$END" in at.accepted or last == "_FROM":
        return []
    if last == "INTEGER":
        return [Kind.UNIT]
    if "INTEGER" in at.accepted:
        return _VALUES
    keyword = next(word for word in reversed(at.words) if word.startswith("_"))
    if "STRING" in at.accepted:
        return [Kind.PARAMETER if keyword == "_FROM" else Kind.FIELD]
    return [{"_FROM": Kind.STREAM, "_INSIGHT": Kind.QUERY}.get(keyword, Kind.OPTION)]


def _parameters(before: str) -> Sequence[str]:
    """Return the parameters of the provider that the cursor stands in."""
    provider = _PROVIDER.search(before)
    of_metrics = provider is not None and provider[1] in METRICS_PROVIDERS
    return (*(_OF_METRICS if of_metrics else _OF_TOPICS), *_PARAMETERS)


def _words_of(text: str) -> Words:
    """Return the names in a text, by what they are. What is no other word is taken for a field."""
    quoted = (match[1] or match[2] for match in _NAMED_FIELDS.finditer(text))
    fields = {name for names in quoted for name in _FIELD.findall(names)}
    plain = QUOTED_OR_COMMENT.sub(" ", text)
    declared = [(match[1], match[2].upper()) for match in _DECLARED.finditer(plain)]
    names = {name for name in _NAME.findall(_STREAM.sub(" ", plain)) if not _is_of_language(name)}
    return {
        Kind.FUNCTION: [*FUNCTIONS],
        Kind.UNIT: _UNITS,
        Kind.OPTION: [*OPTIONS],
        Kind.POLICY: POLICIES,
        Kind.STREAM: [name for name, keyword in declared if keyword == "STREAM"],
        Kind.QUERY: [name for name, keyword in declared if keyword == "COMPUTE"],
        Kind.FIELD: sorted((fields | names) - {name for name, _ in declared}),
    }


def _is_of_language(name: str) -> bool:
    return name in UNIT_OF or name in OPTIONS or name.upper() in (*_CLAUSES, *NAMES)
