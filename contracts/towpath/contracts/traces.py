"""Traces: what one request led to, over all services, and what became of single events.

Every process keeps its spans where it runs: at a site in the stream SPANS of the site's server, beside the
hub in the one of the hub. Those of single events, of which there are many more, have the stream EVENT_SPANS
there, so that they do not push others out. A trace is put together when it is asked for.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from towpath.contracts.message import ROOT, Command, Identifier, Message, Model, Scope

_COLLECTOR = f"{ROOT}.command.collector"

SPANS_STREAM = "SPANS"
EVENT_SPANS_STREAM = "EVENT_SPANS"

TraceId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
SpanId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]


class SpanKind(StrEnum):
    """As in OpenTelemetry."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"
    PRODUCER = "producer"
    CONSUMER = "consumer"


class Span(Message):
    """One piece of work that has ended."""

    subject = f"{ROOT}.span.{{trace}}"
    example = {
        "trace": "0af7651916cd43dd8448eb211c80319c",
        "span": "b7ad6b7169203331",
        "parent": None,
        "name": "request migrate",
        "kind": "client",
        "service": "cli",
        "site": "hub",
        "begun_ns": 1767225600000000000,
        "ended_ns": 1767225601500000000,
        "attributes": {"towpath.job": "hourly-jfk"},
    }

    trace: TraceId
    span: SpanId
    parent: SpanId | None = None
    name: str
    kind: SpanKind = SpanKind.INTERNAL
    service: str
    """Who tells of it: `coordinator`, `agent`, `engine`, `monitor`, `injector`, `collector`, `api`, `cli`.
    What became of an event before its micro-batch is told by the engine."""
    site: Scope
    """Where that one runs; `hub` for the services beside it."""
    begun_ns: int
    """Unix nanoseconds."""
    ended_ns: int
    error: str | None = None
    """Why it failed; null if it did not."""
    attributes: dict[str, str | int | float | bool] = {}
    """`towpath.job`, `towpath.operation`, `towpath.site`, `towpath.batch`, `towpath.serial`, …"""


class EventSpan(Span):
    """The same of a trace of a single event: `stored`, `waiting`, `batch <n>` or `result stored`."""

    subject = f"{ROOT}.span.event.{{trace}}"
    example = {
        "trace": "7be1c3de6e2c4d9ab1f0a83f5a1f7d02",
        "span": "53ce929d0e0e4736",
        "parent": None,
        "name": "stored",
        "kind": "producer",
        "service": "engine",
        "site": "jfk",
        "begun_ns": 1767225600000000000,
        "ended_ns": 1767225600020000000,
        "attributes": {"towpath.job": "hourly-jfk", "towpath.serial": 7, "towpath.sampled_event": True},
    }


class TraceSummary(Model):
    """A trace in one line."""

    trace: TraceId
    name: str
    """Of its first span."""
    service: str
    begun_at: datetime
    duration_s: float
    spans: int
    failed: int = 0
    """Spans that ended with an error."""
    operation: Identifier | None = None
    """The operation it is about, if it is about one."""


class Trace(Model):
    """All spans of one trace, by their begin."""

    trace: TraceId
    spans: list[Span]
    unreached: dict[str, str] = {}
    """Site whose spans are not in here → why."""


class ShowTrace(Command[Trace]):
    """One trace, by its id or by what it is about."""

    subject = f"{_COLLECTOR}.show-trace"
    answer = Trace
    example = {"id": "t1", "about": "5f0c9a7be210"}

    about: str = Field(pattern=r"^[A-Za-z0-9-]{1,64}$")
    """A trace's id, or an operation's, an apply's or a scenario run's."""


class TraceList(Model):
    """Traces, the newest first."""

    traces: list[TraceSummary]
    unreached: dict[str, str] = {}


class ListTraces(Command[TraceList]):
    """The newest traces that began with a request; with `events` those of single events instead."""

    subject = f"{_COLLECTOR}.list-traces"
    answer = TraceList
    example = {"id": "t2", "limit": 20}

    events: bool = False
    limit: int = Field(default=20, ge=1, le=200)


TRACE_COMMANDS: tuple[type[Command[Any]], ...] = (ShowTrace, ListTraces)
"""Served by the collector."""

SPANS: tuple[type[Message], ...] = (Span, EventSpan)
