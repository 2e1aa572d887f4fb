"""Numbers of examples that property tests try: few on every change, many when asked.

`pytest --hypothesis-profile=thorough --hypothesis-seed=random tests/property` tries ten times as many, with
another seed each time. No example is judged by its duration.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("quick", max_examples=100, deadline=None)
settings.register_profile("thorough", max_examples=1_000, deadline=None)
settings.load_profile("quick")


def share_of_examples(share: float) -> settings:
    """Return settings for a test whose examples are long: it tries this share of the usual number."""
    return settings(max_examples=round(share * settings.default.max_examples))
