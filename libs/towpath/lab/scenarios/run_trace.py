"""The trace of a scenario's run: its span, below it the steps, below those their effects in the mesh."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from opentelemetry import trace

from towpath.contracts.message import new_identifier
from towpath.telemetry.lasting_span import LastingSpan
from towpath.telemetry.tracing import span_of, trace_of

_tracer = trace.get_tracer("towpath.lab.scenarios")


class RunTrace:
    """The trace of one run. Its changes are part of it, its measurements are not."""

    def __init__(self, scenario: str, seed: int) -> None:
        self.run = new_identifier()
        """The run's id, by which its trace is found."""
        self._span = LastingSpan(
            name=f"scenario {scenario}",
            trace=trace_of("run", self.run),
            span=span_of("run", self.run),
            begun_ns=time.time_ns(),
            attributes={"towpath.run": self.run, "towpath.scenario": scenario, "towpath.seed": seed},
        )

    def begin(self) -> None:
        """Show the trace from now on, while the run goes on."""
        self._span.tell_begun()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Record the work in the block as a step of the run."""
        with (
            self._span.inside(),
            _tracer.start_as_current_span(name, attributes={"towpath.run": self.run}),
        ):
            yield

    def end(self, error: str | None) -> None:
        """End the trace of the run."""
        self._span.tell_ended(time.time_ns(), error=error)

    def cut_short(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the trace of a run that was cancelled or failed. Made for an exit stack."""
        if kind is not None:
            self.end(f"ended by {kind.__name__}")
