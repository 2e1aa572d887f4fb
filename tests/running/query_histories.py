"""Make histories of events for the texts of `query_texts`.

They have equal times, late events, gaps, null and missing fields, values of a wrong type, and keys that come
and go. The same seed makes the same history.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random

from towpath.queries.reference import Event, Value

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND - 3 * SECOND


def history(seed: int, count: int = 120) -> list[Event]:
    """Return events in the order in which their sites store them."""
    random = Random(seed)
    now, serials, events = BEGIN, Counter[tuple[str, str]](), []
    for number in range(count):
        now += random.choice([0, 0, 250_000, 250_000, 500_000, SECOND])
        if random.random() < 0.02:
            now += random.choice([30, 90]) * SECOND
        is_late = random.random() < 0.15
        time = now - random.choice([SECOND, 3 * SECOND, 6 * SECOND]) * is_late
        place = random.choice(["jfk", "lga"]), random.choice(["site/a", "site/b", "site/c"])
        events.append(Event(*place, serials[place], time, _fields(random, number * 4 // count, time)))
        serials[place] += random.choice([1, 1, 1, 2])
    return events


def _fields(random: Random, phase: int, time: int) -> dict[str, Value]:
    """Fields, each of which may be null or missing. Keys are other ones in each quarter of the history."""
    fields: dict[str, Value] = {
        "x": random.choice([0.0, 1.0, 2.0, 2.0, -3.5, 10.0, random.uniform(-5, 15)]),
        "y": random.choice([1.0, 2.0, 4.0, random.gauss(5, 2)]),
        "n": float(random.randint(-2, 6)),
        "k": random.choice("aab" if phase % 2 else "aac"),
        "g": random.choice(["u", "ux", "v"][: phase + 1]),
        "lat": random.choice([40.6, 40.7, -33.9, 95.0]),
        "lon": random.choice([-73.8, 151.2]),
        "at": (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time - SECOND)).isoformat(),
    }
    for name in [*fields]:
        chance = random.random()
        if chance < 0.06:
            fields[name] = None
        elif chance < 0.12:
            del fields[name]
    if random.random() < 0.03:
        fields["x"] = "no number"
    return fields
