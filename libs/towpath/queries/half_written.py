"""Help someone who writes a query text: its first mistake, its queries, and words that may come next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from towpath.contracts.errors import TowpathError
from towpath.contracts.query import CheckedQueries, QueriesToCheck, QueryMistake, QuerySummary
from towpath.queries.compilation import Asked, compiled
from towpath.queries.explanation import summaries
from towpath.queries.offers import offers
from towpath.queries.problems import QueryTextError
from towpath.queries.providers import placeholders

_NAME, _ANYWHERE = "queries", "here"
"""Name and site of a text that is not run."""


def checked(asked: QueriesToCheck, *, topics: Iterable[str], sites: Sequence[str]) -> CheckedQueries:
    """Return the first mistake of a text, or its queries; and words that may stand at the cursor."""
    mistake, queries = _judged(asked, sites)
    cursor = len(asked.text) if asked.cursor is None else min(asked.cursor, len(asked.text))
    offered = offers(asked.text, cursor, topics=topics, sites=sites)
    return CheckedQueries(
        mistake=mistake,
        queries=queries,
        placeholders=placeholders(asked.text),
        offers=offered.words,
        offers_begin=offered.begin,
    )


def _judged(asked: QueriesToCheck, sites: Sequence[str]) -> tuple[QueryMistake | None, list[QuerySummary]]:
    at = asked.at or _ANYWHERE
    try:
        return None, summaries(compiled(Asked(_NAME, at, asked.text, asked.filled, sites or [at])).meaning)
    except TowpathError as error:
        return _mistake(error), []


def _mistake(error: TowpathError) -> QueryMistake:
    detail = error.detail.suggesting()
    place = error.place if isinstance(error, QueryTextError) else None
    return QueryMistake(
        message=detail.message,
        line=place and place.line,
        column=place and place.column,
        found=detail.value,
        allowed=detail.allowed,
    )
