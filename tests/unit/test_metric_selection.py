"""The names that a pattern matches."""

from __future__ import annotations

import pytest

from towpath.telemetry.selection import matches


@pytest.mark.parametrize(
    ("name", "pattern", "is_meant"),
    [
        ("job:hourly-jfk", "job:*", True),
        ("job:hourly-jfk", "*-jfk", True),
        ("job:hourly-jfk", "job:*jfk*", True),
        ("job:hourly-jfk", "job:hourly", False),
        ("job:hourly-jfk", "JOB:*", False),
        ("job.rate", "jobxrate", False),
    ],
)
def test_pattern_when_compared_with_a_name_then_only_stars_stand_for_anything(
    name: str, pattern: str, is_meant: bool
) -> None:
    assert matches(name, [pattern]) is is_meant


def test_pattern_when_it_has_many_stars_then_no_name_takes_for_ever() -> None:
    assert not matches("job:" + "a" * 60, ["*a" * 90 + "*b"])
