"""Makes samples of what was measured at one moment."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.contracts.metrics import Sample


def samples_of(entity: str, at: float, values: Mapping[str, float]) -> list[Sample]:
    """Samples of one entity, by metric; `at` in Unix seconds."""
    return [Sample(entity=entity, metric=metric, at=at, value=value) for metric, value in values.items()]
