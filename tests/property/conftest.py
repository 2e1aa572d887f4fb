"""Settings of all property tests: the number of examples."""

from running import example_counts  # noqa: F401
