"""The verdict on columns is the verdict on observations: the same counts for any history."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from towpath.checker.history import results_of
from towpath.checker.identity import SerialIdentity, identity_of
from towpath.checker.judging import Leniency
from towpath.checker.observation import observe
from towpath.checker.records import recorded
from towpath.checker.rule import Terms
from towpath.checker.rules import Source, judge_by_truth
from towpath.checker.verdict import FAULTS, NOTICES, judge

STORED_AT = datetime(2026, 1, 1, tzinfo=UTC)
SPAN = 4


def body(serial: int, epoch: int, value: int) -> dict[str, Any]:
    return {
        "job": "job",
        "site": "jfk",
        "epoch": epoch,
        "serial": serial,
        "stored_at": STORED_AT.isoformat(),
        "values": {"value": value},
    }


received = st.fixed_dictionaries(
    {
        "serial": st.integers(1, 8),
        "epoch": st.integers(1, 3),
        "value": st.sampled_from([0, 0, 0, 1]),
        "subscriber": st.sampled_from(["a", "b"]),
        "offset": st.none() | st.integers(1, 6),
        "delay": st.sampled_from([0.1, 0.1, 9.0, -9.0]),
        "reconnects": st.sampled_from([False, False, True]),
        "dup": st.sampled_from([False, False, True]),
        "readable": st.sampled_from([True, True, True, True, False]),
    }
)


def came(offset: int, epoch: int) -> dict[str, Any]:
    """A result as it came to one subscriber on one connection."""
    here: dict[str, Any] = {"subscriber": "a", "reconnects": False, "dup": False, "readable": True}
    return {**here, "delay": 0.1, "serial": 1, "epoch": epoch, "value": 0, "offset": offset}


@example(wanted={1}, stored=set(), history=[came(2, 2), came(1, 1), came(2, 1)])
@given(st.sets(st.integers(1, 8)), st.sets(st.integers(1, 8)), st.lists(received, max_size=30))
def test_verdict_when_judged_on_columns_then_is_that_on_observations(
    wanted: set[int], stored: set[int], history: list[dict[str, Any]]
) -> None:
    connections = {"a": 1, "b": 1}
    observations, lines = [], []
    for came in history:
        name = came["subscriber"]
        connections[name] += came["reconnects"]
        payload = json.dumps(body(came["serial"], came["epoch"], came["value"])).encode()
        payload = payload if came["readable"] else payload[:-2]
        at, where = STORED_AT.timestamp() + came["delay"], connections[name]
        place = {"connection": where, "subscriber": name, "offset": came["offset"], "dup": came["dup"]}
        observations.append(observe(payload, identity_of, at, topic="out", **place))
        lines.append(recorded("out", payload, received_at=at, **place))
    expected = {SerialIdentity("job", None, serial): {"value": 0} for serial in sorted(wanted)}
    in_log = frozenset(SerialIdentity("job", None, serial) for serial in stored)
    one = judge(
        expected, observations, late_after_s=5.0, redelivery_span=SPAN, stored=in_log, order_key=_none
    )
    truth = (json.dumps(body(serial, 1, 0)).encode() for serial in sorted(wanted))
    log = (json.dumps(body(serial, 1, 0)).encode() for serial in sorted(stored))
    other = judge_by_truth(
        Terms(),
        Source("truth", enumerate(truth, start=1)),
        Source("output", enumerate(lines, start=1)),
        leniency=Leniency(late_after_s=5.0, redelivery_span=SPAN),
        log=Source("log", enumerate(log, start=1)),
    )
    words = ("expected", "results", "redelivered", *FAULTS, *NOTICES)
    if not wanted:  # Nothing says how results of this job are known; that is all that differs then.
        return
    assert {word: getattr(other, word) for word in words} == {word: getattr(one, word) for word in words}


def _none(_: Any) -> None:
    return None


@given(st.lists(st.binary(max_size=20), max_size=10))
def test_lines_when_they_are_anything_at_all_then_each_is_a_result_that_can_be_judged(
    texts: list[bytes],
) -> None:
    history = results_of(enumerate(texts, start=1), "output")
    assert len(history) == len(texts)
