"""How often what is measured, and how long it is kept."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.contracts.metrics import Sample

INTERVAL_S = 2.0
"""Between samples: what changes within a micro-batch of a second or two is seen, at little cost."""

PROBE_INTERVAL_S = 15.0
"""Between measurements of links' round trips: each takes a few small messages."""

CHECKPOINT_INTERVAL_S = 10.0
"""Between looks at the sizes of checkpoints, which may have thousands of files."""

KEPT_S = 7 * 24 * 3600.0
"""Age of the oldest sample that is kept."""

KEPT_BYTES = 256 * 1024**2
"""Room for the samples of one site. A job has about 28 series, of which a sample takes 29 bytes and a minute
46. So of 10 jobs a week of minutes and single samples of 9 hours fit, of 50 jobs minutes of two days and
single samples of an hour, of 100 jobs minutes of 16 hours."""

KEPT_SINGLE_S = 3600.0
"""As long as there are older minutes to delete, newer single samples than this are kept."""

RETENTION_INTERVAL_S = 60.0
"""Between looks at what is too old, or too much."""

BANDWIDTH_INTERVAL_S = 300.0
"""Between measurements of a link's bandwidth: each sends 128 KiB, and narrow links are for others."""


def samples_of(entity: str, at: float, values: Mapping[str, float]) -> list[Sample]:
    """Samples of one entity, by metric; `at` in Unix seconds."""
    return [Sample(entity=entity, metric=metric, at=at, value=value) for metric, value in values.items()]
