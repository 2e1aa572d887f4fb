"""Routes of queries, as in `towpath.contracts.rest_routes`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from towpath.contracts.errors import ErrorCode
from towpath.contracts.message import JobName
from towpath.contracts.pipeline_commands import ApplyPipeline, DeletePipeline, ListPipelines, ShowPipeline
from towpath.contracts.query import (
    AnswersQuery,
    CheckedQueries,
    QueriesToCheck,
    QueriesToExplain,
    QueriesToRun,
    QueryExplanation,
    RunningQueries,
    RunningQueriesList,
)
from towpath.contracts.rest import ANY_ERRORS, BODY_ERRORS, Body, Route, fields_of
from towpath.contracts.result import Result
from towpath.contracts.role import OPERATE, VIEW

_QUERIES = {"name": "pipeline"}

_TEXT = """\
s = STREAM FROM topic(topic="site/departures", time="departed_at", delay="1 HOURS");
mean_delay = COMPUTE AVG(delay, 1 HOURS) EVERY 10 MINUTES BY carrier;
"""
EXAMPLE_QUERIES = {"name": "delays", "at": "jfk", "text": _TEXT}

_QUERY: Any = (
    str | None,
    Field(default=None, description="End this query only, and the streams that it alone reads."),
)
_DROP_STATE: Any = (
    list[JobName],
    Field(default=[], description="With `query`: jobs that may begin with empty state."),
)

_LOOKING = ANY_ERRORS | BODY_ERRORS


QUERIES = (
    Route(
        "POST",
        "/queries",
        OPERATE,
        "runQueries",
        ApplyPipeline,
        summary="Run the queries of a text, in place of running ones of the same name, or with them.",
        body=Body(QueriesToRun, example=EXAMPLE_QUERIES),
        follow="/queries/{pipeline}",
        created="/queries/{pipeline}",
    ),
    Route(
        "POST",
        "/queries/check",
        VIEW,
        "checkQueries",
        summary="What is wrong in a query text, or its queries; and the words that may stand at the cursor.",
        answer=CheckedQueries,
        body=Body(QueriesToCheck, example={"text": _TEXT}),
        problems=_LOOKING,
    ),
    Route(
        "POST",
        "/queries/explain",
        VIEW,
        "explainQueries",
        summary="What a query text computes where, and which part serves which queries.",
        answer=QueryExplanation,
        body=Body(QueriesToExplain, example={"at": "jfk", "text": _TEXT}),
        problems=_LOOKING,
    ),
    Route(
        "GET",
        "/queries",
        VIEW,
        "listQueries",
        ListPipelines,
        summary="All query texts that run.",
        answer=RunningQueriesList,
    ),
    Route(
        "GET",
        "/queries/{name}",
        VIEW,
        "showQueries",
        ShowPipeline,
        summary="A query text that runs.",
        answer=RunningQueries,
        path_fields=_QUERIES,
        addressed=ErrorCode.UNKNOWN_PIPELINE,
    ),
    Route(
        "DELETE",
        "/queries/{name}",
        OPERATE,
        "removeQueries",
        DeletePipeline,
        summary="End running queries, or one of them. Their answers stay, unless purged.",
        path_fields=_QUERIES,
        query=fields_of(
            DeletePipeline, "RemoveQueriesQuery", "now", "purge", query=_QUERY, drop_state=_DROP_STATE
        ),
        addressed=ErrorCode.UNKNOWN_PIPELINE,
        follow="/queries/{pipeline}",
    ),
    Route(
        "GET",
        "/queries/{name}/answers",
        VIEW,
        "followAnswers",
        summary="Answers as server-sent events, the newest stored ones first; `id` is the serial number.",
        answer=Result,
        path_fields=_QUERIES,
        query=AnswersQuery,
        addressed=ErrorCode.UNKNOWN_PIPELINE,
        streams=True,
    ),
)
