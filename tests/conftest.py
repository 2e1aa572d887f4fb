"""What holds for all tests."""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.register_profile("explore")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
"""Property tests try the same examples every time, so that a change is judged by what it changes.
`HYPOTHESIS_PROFILE=explore make test-fast` tries others each time."""
