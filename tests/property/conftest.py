"""What all property tests share: the number of examples."""

from running import example_counts  # noqa: F401
