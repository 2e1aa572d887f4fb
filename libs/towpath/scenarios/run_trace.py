"""A scenario's run is one trace: its span, below it the steps, below those what they led to in the mesh."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace

from towpath.contracts.message import new_identifier
from towpath.telemetry.tracing import continuing, record, record_begun, span_of, trace_of, traceparent_of

_tracer = trace.get_tracer("towpath.scenarios")


class RunTrace:
    """The trace of one run. Only steps are part of it: what a run looks at all the time is not."""

    def __init__(self, scenario: str, seed: int) -> None:
        self.run = new_identifier()
        """The run's id, by which its trace is found."""
        self._name = f"scenario {scenario}"
        self._trace, self._span = trace_of("run", self.run), span_of("run", self.run)
        self._attributes = {"towpath.run": self.run, "towpath.scenario": scenario, "towpath.seed": seed}
        self._begun_ns = time.time_ns()

    def begin(self) -> None:
        """The run goes on: its trace can be looked at meanwhile."""
        record_begun(
            self._name,
            begun_ns=self._begun_ns,
            trace=self._trace,
            span=self._span,
            attributes=self._attributes,
        )

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Work inside belongs to a step of the run."""
        with (
            continuing(traceparent_of(self._trace, self._span)),
            _tracer.start_as_current_span(name, attributes={"towpath.run": self.run}),
        ):
            yield

    def end(self, error: str | None) -> None:
        """The run has ended, as expected or not."""
        record(
            self._name,
            begun_ns=self._begun_ns,
            ended_ns=time.time_ns(),
            trace=self._trace,
            span=self._span,
            attributes=self._attributes,
            error=error,
        )
