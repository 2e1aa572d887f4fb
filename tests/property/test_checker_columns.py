"""The verdict is the same for observations and for lines of a file, and equals that of plain loops."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from towpath.checker.history import results_of
from towpath.checker.identity import SerialIdentity, identity_of
from towpath.checker.judging import judge
from towpath.checker.observation import observe
from towpath.checker.records import recorded
from towpath.checker.rule import Terms
from towpath.checker.rules import NamedLines, judge_by_truth
from towpath.checker.verdict import FAULTS, NOTICES, Leniency, Verdict

STORED_AT = datetime(2026, 1, 1, tzinfo=UTC)
SPAN = 4
LENIENCY = Leniency(late_after_s=5.0, redelivery_span=SPAN)

Came = Mapping[str, Any]
"""A result as it came, made by `received`."""

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


def body(serial: int, epoch: int, value: int) -> dict[str, Any]:
    return {
        "job": "job",
        "site": "jfk",
        "epoch": epoch,
        "serial": serial,
        "stored_at": STORED_AT.isoformat(),
        "values": {"value": value},
    }


def payload_of(came: Came) -> bytes:
    payload = json.dumps(body(came["serial"], came["epoch"], came["value"])).encode()
    return payload if came["readable"] else payload[:-2]


def at(offset: int, epoch: int) -> Came:
    """Return a result as it came to one subscriber on one connection."""
    here: dict[str, Any] = {"subscriber": "a", "reconnects": False, "dup": False, "readable": True}
    return {**here, "delay": 0.1, "serial": 1, "epoch": epoch, "value": 0, "offset": offset}


def oracle(wanted: set[int], stored: set[int], history: Sequence[Came]) -> dict[str, int]:
    """Count by the definitions of the words, result by result, with a look back over all earlier results."""
    counts: dict[str, int] = defaultdict(int, expected=len(wanted), results=len(history))
    counted: list[Came] = []  # Those that are not redelivered.
    for number, came in enumerate(history):
        mine = [each for each in history[: number + 1] if each["subscriber"] == came["subscriber"]]
        began = max([n for n, each in enumerate(mine) if each["reconnects"] and n], default=0)
        copies = [n for n, each in enumerate(mine[:-1]) if payload_of(each) == payload_of(came)]
        if copies and (came["dup"] or 0 < began - copies[-1] <= SPAN):
            counts["redelivered"] += 1
            continue
        before = [each for each in counted if each["subscriber"] == came["subscriber"]]
        if not (began and len(mine) - 1 - began < SPAN):
            epochs = [each["epoch"] for each in before if each["readable"]]
            counts["stale_owner"] += came["readable"] and came["epoch"] < max(epochs, default=0)
            counts["nonmonotonic"] += falls(came, [each for each in before if each["offset"] is not None])
        known = came["readable"] and came["serial"] in wanted
        again = any(each["readable"] and each["serial"] == came["serial"] for each in counted)
        counts["unexpected"] += not known
        counts["wrong"] += known and came["value"] != 0
        counts["duplicated"] += known and again
        counts["late"] += known and not again and came["delay"] > 5
        counts["premature"] += known and not again and came["delay"] < -1
        counts["out_of_order"] += known and not again and overtaken(came, counted, wanted)
        counted.append(came)
    missing = wanted - {each["serial"] for each in counted if each["readable"]}
    return {**counts, "lost": len(missing - stored), "unseen": len(missing & stored)}


def falls(came: Came, before: Sequence[Came]) -> bool:
    """True if the log was read backwards, or another result was last read at the same place."""
    highest = max((each["offset"] for each in before), default=None)
    if came["offset"] is None or highest is None:
        return False
    there = [each for each in before if each["offset"] == highest]
    return came["offset"] < highest or (
        came["offset"] == highest and payload_of(came) != payload_of(there[-1])
    )


def overtaken(came: Came, before: Sequence[Came], wanted: set[int]) -> bool:
    """True if a later expected result came earlier."""
    return any(each["readable"] and came["serial"] < each["serial"] in wanted for each in before)


def counts_of(verdict: Verdict, *without: str) -> dict[str, int]:
    words = ("expected", "results", "redelivered", *FAULTS, *NOTICES)
    return {word: getattr(verdict, word) for word in words if word not in without}


@example(wanted={1}, history=[at(2, 2), at(1, 1), at(2, 1)])
@given(st.sets(st.integers(1, 8)), st.lists(received, max_size=30))
def test_verdict_when_on_observations_then_is_that_of_plain_loops(
    wanted: set[int], history: list[Came]
) -> None:
    connections, observations = {"a": 1, "b": 1}, []
    for came in history:
        name = came["subscriber"]
        connections[name] += came["reconnects"]
        place = {"subscriber": name, "offset": came["offset"], "dup": came["dup"]}
        received_at = STORED_AT.timestamp() + came["delay"]
        observations.append(observe(payload_of(came), identity_of, received_at, connections[name], **place))
    truth = {SerialIdentity("job", None, serial): {"value": 0} for serial in sorted(wanted)}
    expected = defaultdict(int, oracle(wanted, set(), history))
    verdict = counts_of(judge(truth, observations, LENIENCY))
    assert verdict == {word: expected[word] for word in verdict}


@example(wanted={1}, stored=set(), history=[at(2, 2), at(1, 1), at(2, 1)])
@given(st.sets(st.integers(1, 8), min_size=1), st.sets(st.integers(1, 8)), st.lists(received, max_size=30))
def test_verdict_when_on_lines_and_a_log_then_is_that_of_plain_loops(
    wanted: set[int], stored: set[int], history: list[Came]
) -> None:
    connections, lines = {"a": 1, "b": 1}, []
    for came in history:
        name = came["subscriber"]
        connections[name] += came["reconnects"]
        place = {"subscriber": name, "offset": came["offset"], "dup": came["dup"]}
        received_at = STORED_AT.timestamp() + came["delay"]
        where = connections[name]
        lines.append(recorded("out", payload_of(came), received_at=received_at, connection=where, **place))
    judged = judge_by_truth(
        Terms(),
        NamedLines("truth", enumerate((json.dumps(body(n, 1, 0)).encode() for n in sorted(wanted)), start=1)),
        NamedLines("output", enumerate(lines, start=1)),
        leniency=LENIENCY,
        log=NamedLines(
            "log", enumerate((json.dumps(body(n, 1, 0)).encode() for n in sorted(stored)), start=1)
        ),
    )
    expected = defaultdict(int, oracle(wanted, stored, history))
    verdict = counts_of(judged, "out_of_order")  # No key is given, within which it would count.
    assert verdict == {word: expected[word] for word in verdict}


@given(st.lists(st.binary(max_size=20), max_size=10))
def test_lines_when_they_are_anything_at_all_then_each_is_a_result_that_can_be_judged(
    texts: list[bytes],
) -> None:
    history = results_of(enumerate(texts, start=1), "output")
    assert len(history) == len(texts)
