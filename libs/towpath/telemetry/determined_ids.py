"""Ids of spans: random, except for spans that are recorded under given ones."""

from __future__ import annotations

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from towpath.telemetry.tracing import determined_ids


class DeterminedIds(RandomIdGenerator):
    """Gives out what `determined_ids` says, and random ids where it says nothing."""

    def generate_trace_id(self) -> int:
        """See `opentelemetry.sdk.trace.IdGenerator`."""
        ids = determined_ids.get()
        return super().generate_trace_id() if ids is None else int(ids[0], 16)

    def generate_span_id(self) -> int:
        """See `opentelemetry.sdk.trace.IdGenerator`."""
        ids = determined_ids.get()
        return super().generate_span_id() if ids is None else int(ids[1], 16)
