"""What all property tests share: the number of examples."""

import example_counts  # noqa: F401
