"""Events that arrived and were not kept are counted, although two counters are never read at once."""

from __future__ import annotations

import pytest

from towpath.agent.unkept_events import Shortfall


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([(5, 5), (9, 9), (20, 20), (30, 30)], [0, 0, 0, 0]),
        ([(0, 0), (1_000, 200), (2_000, 2_000), (3_000, 2_500), (3_000, 3_000)], [0, 0, 0, 0, 0]),
        ([(n, n - 1_000) for n in (1_000, 2_000, 3_000, 4_000, 5_000)], [0, 0, 0, 0, 0]),
        ([(0, 0), (2, 0), (2, 0), (2, 0), (2, 0), (5, 0), (5, 0), (5, 0)], [0, 0, 0, 2, 0, 0, 0, 3]),
        ([(7, 3), (7, 3), (7, 3), (8, 4)], [0, 0, 0, 0]),
        ([(100, 100), (100, 100), (100, 100), (0, 100), (4, 102), (4, 102), (4, 102)], [0, 0, 0, 0, 0, 0, 2]),
        ([(0, 0), (0, 50), (0, 100), (0, 150)], [0, 0, 0, 0]),
    ],
    ids=[
        "all kept",
        "stored a moment later",
        "always a thousand under way",
        "qos 0",
        "before the start",
        "server restarted",
        "by the bridge",
    ],
)
def test_shortfall_when_counters_are_looked_at_then_tells_what_stays_missing_once(
    looks: list[tuple[int, int]], told: list[int]
) -> None:
    shortfall = Shortfall()
    assert [shortfall.grown(arrived, kept) for arrived, kept in looks] == told
