"""Intervals of measurements, and how long their samples are kept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from towpath.contracts.metrics import Sample

INTERVAL_S = 2.0
"""Between samples. Short enough to see changes within a micro-batch of a second or two, at little cost."""

PROBE_INTERVAL_S = 15.0
"""Between measurements of links' round trips. Each takes a few small messages."""

CHECKPOINT_INTERVAL_S = 10.0
"""Between measurements of checkpoints' sizes. A checkpoint may have thousands of files."""

KEPT_S = 7 * 24 * 3600.0
"""Greatest age of a sample."""

LATEST_S = datetime.max.replace(tzinfo=UTC).timestamp()
"""The last moment that has a date, in Unix seconds."""

AHEAD_S = 60.0
"""A sample may be so far ahead of the clock of the store, which is that of its own machine."""

KEPT_BYTES = 256 * 1024**2
"""Room for the samples of one site.

A job has about 28 series. A sample takes 29 bytes and a minute 46. So the room holds a week of minutes and
9 hours of single samples for 10 jobs, 2 days of minutes and an hour of single samples for 50 jobs, and
16 hours of minutes for 100 jobs."""

KEPT_SINGLE_S = 3600.0
"""Single samples newer than this are kept as long as there are older minutes to delete."""

RETENTION_INTERVAL_S = 60.0
"""Between deletions of samples that are too old or too many."""

BANDWIDTH_INTERVAL_S, LONGEST_BANDWIDTH_INTERVAL_S = 300.0, 3600.0
"""Least and greatest time between measurements of a link's bandwidth. Each sends 128 KiB, which is much for a
narrow link: as long as a link stays as it is, it is measured more and more seldom."""


def samples_of(entity: str, at: float, values: Mapping[str, float]) -> list[Sample]:
    """Return the samples of one entity from values by metric. `at` is in Unix seconds."""
    return [Sample(entity=entity, metric=metric, at=at, value=value) for metric, value in values.items()]
