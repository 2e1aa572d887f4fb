"""A process of a site that prints its state again and again, for tests of the rules that affect it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from towpath.hooks.points import OPERATOR_EVENT, SINK_PUBLISH, SOURCE_READ, Items, Point
from towpath.lab.faults import board

EVENT = b'{"delay": 20}'
EVENTS = Items[bytes](
    payload=lambda item: item, fields=lambda item: {"topic": "site/a"}, with_payload=lambda item, new: new
)
UNTOUCHED = {"events": 1, "published": 1, "delay": 20, "skew_s": 0}
"""Its output without rules."""


def seen() -> dict[str, Any]:
    """Return what happens at three points of the data path, and to the clock."""
    try:
        published: Any = len(passed(SINK_PUBLISH))
    except ConnectionError as error:
        published = str(error)
    [event] = passed(OPERATOR_EVENT)
    skew_s = round(time.time() - time.clock_gettime(time.CLOCK_REALTIME))
    return {
        "events": len(passed(SOURCE_READ)),
        "published": published,
        "delay": json.loads(event)["delay"],
        "skew_s": skew_s,
    }


def passed(point: Point) -> Sequence[bytes]:
    return point.through([EVENT], EVENTS, job="delays") if point.rules else [EVENT]


if __name__ == "__main__":
    board.watch()
    while True:
        print(json.dumps(seen()), flush=True)
        time.sleep(0.02)
