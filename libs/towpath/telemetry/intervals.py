"""How often what is measured, and how long it is kept."""

from __future__ import annotations

INTERVAL_S = 2.0
"""Between samples: what changes within a micro-batch of a second or two is seen, at little cost."""

PROBE_INTERVAL_S = 15.0
"""Between measurements of links: each carries 128 KiB, a hundredth of a slow link's capacity."""

CHECKPOINT_INTERVAL_S = 10.0
"""Between looks at the sizes of checkpoints, which may have thousands of files."""

KEPT_S = 7 * 24 * 3600.0
"""Age of the oldest sample that is kept."""

KEPT_BYTES = 256 * 1024**2
"""Room for the samples of one site: some days of every sample, or a week of minutes of 50 jobs."""

RETENTION_INTERVAL_S = 60.0
"""Between looks at what is too old, or too much."""

BANDWIDTH_INTERVAL_S = 300.0
"""Between measurements of a link's bandwidth: each sends 128 KiB, and narrow links are for others."""
