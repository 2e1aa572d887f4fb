"""A process of a site that tells again and again what it sees: for tests of what rules do to it."""

from __future__ import annotations

import colorsys
import json
import time
from typing import Any

from towpath.hooks.points import SOURCE_READ, Items
from towpath.lab.faults import board

EVENT = b'{"delay": 20}'
EVENTS = Items[bytes](
    payload=lambda item: item, fields=lambda item: {"topic": "site/a"}, with_payload=lambda item, new: new
)
UNTOUCHED = {"events": 1, "hue": 0.0, "grey": 0.5, "skew_s": 0}
"""What it sees without rules."""


def seen() -> dict[str, Any]:
    """What happens at a point of the data path, to two functions, and to the clock."""
    passed = SOURCE_READ.through([EVENT], EVENTS, job="delays") if SOURCE_READ.rules else [EVENT]
    try:
        hue: Any = colorsys.rgb_to_hsv(0.5, 0.5, 0.5)[0]
    except ConnectionError as error:
        hue = str(error)
    grey = colorsys.hsv_to_rgb(0, 0, 0.5)
    skew_s = round(time.time() - time.clock_gettime(time.CLOCK_REALTIME))
    return {"events": len(passed), "hue": hue, "grey": grey[0] if grey else None, "skew_s": skew_s}


if __name__ == "__main__":
    board.watch()
    while True:
        print(json.dumps(seen()), flush=True)
        time.sleep(0.02)
