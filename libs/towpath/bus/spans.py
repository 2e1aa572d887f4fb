"""Decide which messages make spans, and with which attributes.

A client that changes something begins a trace. Other messages make spans only inside one. Otherwise a mesh
that is merely watched would fill its streams with traces of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from towpath.contracts.errors import ErrorDetail
from towpath.contracts.message import ROOT, Command
from towpath.telemetry.logs import about
from towpath.telemetry.tracing import continuing, is_traced, traceparent_to_send, untraced

tracer = trace.get_tracer("towpath.bus")

LOOKING = frozenset(
    {"analyse", "backup", "check", "describe", "echo", "explain", "forecast", "list", "measure", "observe"}
    | {"plan", "query", "read", "recompute", "report", "show"}
)
"""First words of the commands that change nothing."""

TRACEPARENT = "traceparent"
"""W3C's name of the header."""


def is_looking(kind: type[Command[Any]]) -> bool:
    """True if the command changes nothing."""
    return kind.verb().partition("-")[0] in LOOKING


def trace_headers() -> dict[str, Any] | None:
    """Return headers that name the trace of a message sent now, or say that it has none.

    None outside of a trace.
    """
    current = traceparent_to_send()
    return {TRACEPARENT: current} if current is not None else None


def begins_trace(kind: type[Command[Any]]) -> bool:
    """True if the command begins a trace where there is none: a client asks a service to change something.

    All other commands are sent on behalf of such a command, or by a process that repeats them by itself. An
    engine that is told again and again to run an impossible job would fill the stream.
    """
    to_service = kind.subject.startswith(f"{ROOT}.command.") and not kind.placeholders()
    return to_service and not kind.is_step and not is_looking(kind)


@contextmanager
def requesting(command: Command[Any], *, own_span: bool) -> Iterator[None]:
    """Record sending a command and waiting for its answer."""
    if not (own_span and (is_traced() or begins_trace(type(command)))):
        yield
        return
    with tracer.start_as_current_span(
        f"request {command.verb()}", kind=SpanKind.CLIENT, attributes=_attributes(command)
    ):
        yield


@contextmanager
def serving(kind: type[Command[Any]], headers: Mapping[str, str] | None) -> Iterator[None]:
    """Record the execution of a command that came with these headers."""
    # The context of the connection's own task would be wrong: it dates from when the task was made.
    with untraced(), continuing((headers or {}).get(TRACEPARENT)):
        if not (is_traced() or begins_trace(kind)):
            yield
            return
        with tracer.start_as_current_span(f"serve {kind.verb()}", kind=SpanKind.SERVER):
            yield


@contextmanager
def deciding(command: Command[Any]) -> Iterator[None]:
    """Add the command's subject to the handler's span and log lines."""
    trace.get_current_span().set_attributes(_attributes(command))
    known = {"job": _job(command), "operation": getattr(command, "operation", None)}
    with about(**known) if any(known.values()) else nullcontext():
        yield


def refused(detail: ErrorDetail) -> None:
    """Mark the span of a command that was refused."""
    trace.get_current_span().set_status(StatusCode.ERROR, detail.one_line())


def _attributes(command: Command[Any]) -> dict[str, str]:
    fields = {
        "towpath.command": command.id,
        "towpath.asked_by": command.asked_by,
        "towpath.job": _job(command),
        "towpath.operation": getattr(command, "operation", None),
        "towpath.site": getattr(command, "site", None),
        "towpath.pipeline": getattr(command, "pipeline", None),
    }
    return {name: value for name, value in fields.items() if isinstance(value, str)}


def _job(command: Command[Any]) -> str | None:
    """Return the job that a command is about."""
    job = getattr(command, "job", None)
    if job is None:
        assignment = getattr(command, "assignment", None)
        spec = getattr(assignment, "spec", None) or getattr(command, "spec", None)
        job = getattr(spec, "name", None)
    return job if isinstance(job, str) else None
