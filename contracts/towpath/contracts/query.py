"""Query texts over REST: what is asked, what is wrong with it, and what runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeVar

from pydantic import Field, model_validator

from towpath.contracts.message import JobName, Model, SiteName
from towpath.contracts.operators import MAX_QUERY_TEXT
from towpath.contracts.pipeline import ApplyState, PipelineJob, PolicyName, WebAddress
from towpath.contracts.rest import LARGEST_SERIAL

MAX_NEWEST = 10_000
"""Stored answers that a new follower may ask for."""

QuerySource = Annotated[
    str,
    Field(
        max_length=MAX_QUERY_TEXT,
        description="Streams and queries, as `docs/query-language.md` describes them.",
    ),
]


class QueriesToCheck(Model):
    """Check a query text, which may be half written. Nothing is run."""

    text: QuerySource
    filled: dict[str, str] = {}
    """Name → the text in place of `{name}` in the parameters of streams."""
    at: SiteName | None = None
    """The site that asks; null: any."""
    cursor: int | None = Field(default=None, ge=0)
    """Characters of the text before the place at which something may be inserted; null: at its end."""


class QueriesToExplain(Model):
    """Say what a query text would compute where. Nothing is run."""

    text: QuerySource
    at: SiteName | None = None
    """The site that asks. Null only with `into`: that of the running text."""
    name: JobName = "queries"
    into: bool = False
    """Explain the running text of that name with this one in it."""
    filled: dict[str, str] = {}
    """Name → the text in place of `{name}` in the parameters of streams."""

    @model_validator(mode="after")
    def _has_site(self) -> QueriesToExplain:
        return _with_site(self)


class QueriesToRun(Model):
    """Run the queries of a text. Running ones of the same name become those of the text, or are joined."""

    name: JobName
    """Of the queries. Their answers have the topic `queries/<name>`."""
    text: QuerySource
    at: SiteName | None = None
    """The site that asks: answers are there. Null only with `into`: that of the running text."""
    into: bool = False
    """Join the running text of that name, whose queries go on."""
    filled: dict[str, str] = {}
    """Name → the text in place of `{name}` in the parameters of streams."""
    trigger_s: float | None = Field(default=None, ge=0, le=3600)
    """Least seconds between micro-batches of events; null: a fifth of the shortest step of the answers, from
    1 to 10."""
    webhook: WebAddress | None = None
    """Each answer is POSTed to this address, too."""
    drop_state: list[JobName] = []
    """Jobs that may begin with empty state, where theirs does not survive the change."""

    @model_validator(mode="after")
    def _has_site(self) -> QueriesToRun:
        return _with_site(self)


AskedT = TypeVar("AskedT", QueriesToExplain, QueriesToRun)


def _with_site(asked: AskedT) -> AskedT:
    if asked.at is None and not asked.into:
        raise ValueError("the site that asks is needed in `at`, unless the text joins a running one")
    return asked


class OfferKind(StrEnum):
    """Kind of a word that may stand in a query text."""

    CLAUSE = "clause"
    FUNCTION = "function"
    STREAM = "stream"
    QUERY = "query"
    FIELD = "field"
    UNIT = "unit"
    PARAMETER = "parameter"
    OPTION = "option"
    POLICY = "policy"
    TOPIC = "topic"
    SITE = "site"


class QueryOffer(Model):
    """A word that may stand at the cursor."""

    text: str
    kind: OfferKind


class QueryMistake(Model):
    """A mistake in a query text, and its place."""

    message: str
    line: int | None = None
    """From 1. Null, as `column` is, where no single place is wrong."""
    column: int | None = None
    """From 1."""
    found: str | float | None = None
    """The word that stands there."""
    allowed: str | list[str] | None = None
    """The words that could stand there."""


class QuerySummary(Model):
    """One query of a text."""

    query: str
    moments: str
    """When it answers, for people."""
    by: list[str]
    """Fields whose values have answers of their own."""
    reads: list[str]
    """Streams, and queries whose answers it reads."""


class CheckedQueries(Model):
    """Answer to a check: what is wrong, or the queries; and what may stand at the cursor."""

    mistake: QueryMistake | None
    """The first mistake; null: the text can be run."""
    queries: list[QuerySummary]
    """None if there is a mistake."""
    placeholders: list[str]
    """Names of all `{name}` in the text, which `filled` needs."""
    offers: list[QueryOffer]
    """Words that may stand at the cursor, whole."""
    offers_begin: int
    """They replace the text from here to the cursor, counted in characters."""


class SharedPart(Model):
    """Numbers that are kept for each pane and key, and the queries that they serve."""

    part: str
    of: str
    """The value of events that it is computed of."""
    serves: list[str]
    """Queries."""


class SiteShare(Model):
    """The part of the work that a site with events does."""

    site: SiteName
    topics: list[str]
    pane_s: float
    """Length of a pane, seconds."""
    bytes_per_key_and_hour: int
    """Expected to leave the site, for each key that has events all the time; 0 where the answers are made."""
    parts: list[SharedPart]


class QueryExplanation(Model):
    """The work that a query text needs at each site, and which part of it serves which queries."""

    at: SiteName
    topic: str
    """Topic of the answers."""
    scheduler: PolicyName | None
    """Policy that finds the site where answers are made of panes; null: the site that asks."""
    queries: list[QuerySummary]
    sites: list[SiteShare]
    thinned: bool
    """A part of the events is read, because all queries are content with estimates."""
    jobs: list[PipelineJob]
    added: list[str] = []
    """Queries that the running text does not have, of a text that joins it."""
    begin_again: list[JobName] = []
    """Jobs that would lose their state by the joining. It is refused unless `drop_state` names them."""


class RunningQueries(Model):
    """A query text that runs."""

    name: JobName
    at: SiteName
    """The site that asks: answers are there."""
    topic: str
    """Topic of the answers."""
    text: str
    queries: list[QuerySummary]
    filled: dict[str, str]
    webhook: WebAddress | None = None
    """Address to which each answer is POSTed, too."""
    state: ApplyState
    """State of the newest apply."""
    note: str = ""
    """For people: what is wrong."""


class RunningQueriesList(Model):
    """All query texts that run, by name."""

    queries: list[RunningQueries]


class AnswersQuery(Model):
    """Which answers a client wants."""

    after: int | None = Field(default=None, ge=0, le=LARGEST_SERIAL)
    """Serial number of the last answer that the client has; 0: from the oldest that is kept. Left out: as
    `newest` says. The header `Last-Event-ID`, which browsers send, comes before it."""
    newest: int = Field(default=100, ge=0, le=MAX_NEWEST)
    """So many of the stored answers come first, without `after`."""
    follow: bool = True
    """Go on with what comes; false: end after the newest answer that is stored."""
