"""For any results and any faults planted among them, the verdict counts exactly what was planted."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from towpath.checker.identity import Identity, identity_of
from towpath.checker.judging import judge
from towpath.checker.observation import ReceivedMessage, observe
from towpath.checker.verdict import Leniency

T0 = datetime(2013, 1, 1, tzinfo=UTC)
STORED_AT = datetime(2026, 1, 1, tzinfo=UTC)
FAULTS = ("drop", "repeat", "alter", "stranger", "delay", "swap", "redeliver")


def result(window: int, key: str, count: int, mean: float) -> dict[str, Any]:
    start = T0 + timedelta(hours=window)
    return {
        "job": "hourly",
        "site": "jfk",
        "epoch": 1,
        "serial": window,
        "stored_at": STORED_AT.isoformat(),
        "window": {"start": start.isoformat(), "end": (start + timedelta(hours=1)).isoformat()},
        "key": {"carrier": key},
        "count": count,
        "values": {"departures": count, "mean_delay": mean},
    }


@st.composite
def results(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw results of a few keys: each key's windows in order, keys interleaved at random."""
    places = draw(st.sets(st.tuples(st.integers(0, 30), st.sampled_from("ABCDE")), max_size=40))
    mean = st.floats(-1e6, 1e6)
    return [result(window, key, draw(st.integers(1, 9)), draw(mean)) for window, key in sorted(places)]


class Planted:
    """Results with planted faults, at most one in each result, and the counts that must follow."""

    def __init__(self, bodies: list[dict[str, Any]], faults: list[str], seed: int) -> None:
        self.counts = dict.fromkeys(
            ("lost", "duplicated", "wrong", "unexpected", "out_of_order", "late", "redelivered"), 0
        )
        self._chance = random.Random(seed)
        free = list(range(len(bodies)))
        self._chance.shuffle(free)
        self._fault_of: dict[int, str] = dict(zip(free, faults, strict=False))
        self._bodies = bodies

    def observations(self) -> list[ReceivedMessage]:
        first = [o for at, body in enumerate(self._bodies) for o in self._received(at, body)]
        second = [o for at in self._fault_of for o in self._on_the_second_connection(at)]
        return first + second

    def _see(self, body: dict[str, Any], late: bool = False, connection: int = 1) -> ReceivedMessage:
        received_at = STORED_AT.timestamp() + (10.0 if late else 0.1)
        return observe(json.dumps(body).encode(), identity_of, received_at, connection)

    def _received(self, at: int, body: dict[str, Any]) -> Iterator[ReceivedMessage]:
        fault = self._fault_of.get(at)
        if fault == "drop":
            self.counts["lost"] += 1
        elif fault == "alter":
            self.counts["wrong"] += 1
            name = self._chance.choice(["departures", "mean_delay"])
            yield self._see(body | {"values": body["values"] | {name: body["values"][name] + 1}})
        elif fault == "swap":
            pass  # comes after all others, on the second connection
        else:
            yield self._see(body, late=fault == "delay")
            self.counts["late"] += fault == "delay"
        if fault == "repeat":
            self.counts["duplicated"] += 1
            yield self._see(body)
        elif fault == "stranger":
            self.counts["unexpected"] += 1
            yield self._see(body | {"key": {"carrier": f"~{at}"}})

    def _on_the_second_connection(self, at: int) -> Iterator[ReceivedMessage]:
        body = self._bodies[at]
        if self._fault_of[at] == "redeliver":
            self.counts["redelivered"] += 1
            yield self._see(body, connection=2)
        elif self._fault_of[at] == "swap":
            self.counts["out_of_order"] += self._overtaken(at)
            yield self._see(body, connection=2)

    def _overtaken(self, at: int) -> bool:
        """True if a later window of the key comes before this one, given the places of the others."""
        key, swapped = self._bodies[at]["key"], [i for i in self._fault_of if self._fault_of[i] == "swap"]
        earlier = set(swapped[: swapped.index(at)])
        return any(
            later["key"] == key
            and self._fault_of.get(i) != "drop"
            and (self._fault_of.get(i) != "swap" or i in earlier)
            for i, later in enumerate(self._bodies)
            if i > at
        )


@given(results(), st.lists(st.sampled_from(FAULTS), max_size=25), st.integers(0, 2**32))
def test_verdict_when_faults_are_planted_then_counts_exactly_these(
    bodies: list[dict[str, Any]], faults: list[str], seed: int
) -> None:
    expected: dict[Identity, dict[str, Any]] = {identity_of(body): body["values"] for body in bodies}
    planted = Planted(bodies, faults, seed)
    observations = planted.observations()
    verdict = judge(expected, observations, Leniency(late_after_s=5.0))
    assert {name: getattr(verdict, name) for name in planted.counts} == planted.counts
    assert verdict.clean == (
        not any(planted.counts[n] for n in ("lost", "duplicated", "wrong", "unexpected"))
    )
    assert (verdict.expected, verdict.results) == (len(bodies), len(observations))
