"""The faults of points, one by one."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from running.fault_trial import PARCELS, Parcel, parcels, serials
from towpath.contracts.errors import TowpathError
from towpath.contracts.faults import RuleAction
from towpath.hooks.points import InjectedFault
from towpath.lab.faults.faults.throw import injected
from towpath.lab.faults.registry import POINT, PointFault, faults
from towpath.lab.faults.rule_actions import made


def at_point(name: str, seed: int = 0, **parameters: Any) -> PointFault:
    fault = made(RuleAction(fault=name, parameters=parameters), POINT, Random(seed))
    assert isinstance(fault, PointFault)
    return fault


def refusal(name: str, applied_to: str = POINT, **parameters: Any) -> str:
    with pytest.raises(TowpathError) as caught:
        made(RuleAction(fault=name, parameters=parameters), applied_to, Random(0))
    return str(caught.value)


def test_faults_when_listed_then_hold_those_of_points_and_clocks() -> None:
    def names(applied_to: str) -> set[str]:
        return {name for name, kind in faults().items() if applied_to in kind.applies_to}

    changing = {"drop", "duplicate", "reorder", "corrupt", "replace"}
    assert names(POINT) == changing | {"delay", "throw", "emit"}
    assert names("clock") == {"clock_skew"}


def test_duplicate_when_three_times_then_each_hit_passes_four_times_in_place() -> None:
    changed = at_point("duplicate", times=3).change(parcels(3), [1], PARCELS)
    assert serials(changed) == [1, 2, 2, 2, 2, 3]


@pytest.mark.parametrize("window", [1, 2, 5])
def test_reorder_when_one_is_hit_then_it_comes_behind_one_to_window_others(window: int) -> None:
    seen = set()
    for seed in range(200):
        changed = serials(at_point("reorder", seed, window=window).change(parcels(9), [2], PARCELS))
        assert sorted(changed) == list(range(1, 10))
        assert [s for s in changed if s != 3] == [1, 2, 4, 5, 6, 7, 8, 9]
        seen.add(changed.index(3) - 2)
    assert seen == set(range(1, window + 1))


def test_reorder_when_the_last_is_hit_then_it_stays() -> None:
    assert serials(at_point("reorder").change(parcels(2), [1], PARCELS)) == [1, 2]


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_corrupt_when_bits_flip_then_that_many_differ(count: int) -> None:
    (before,) = parcels(1)
    (after,) = at_point("corrupt", count=count).change([before], [0], PARCELS)
    flipped = sum((a ^ b).bit_count() for a, b in zip(before.body, after.body, strict=True))
    assert flipped == min(count, 8 * len(before.body))
    assert after.serial == before.serial


@pytest.mark.parametrize(("count", "left"), [(1, b'{"n": 1'), (8, b""), (99, b"")])
def test_corrupt_when_truncated_then_bytes_are_missing_at_the_end(count: int, left: bytes) -> None:
    changed = at_point("corrupt", how="truncate", count=count).change(parcels(1), [0], PARCELS)
    assert changed == [Parcel(1, left)]


@pytest.mark.parametrize(
    ("field", "before", "after"),
    [
        ("a", {"a": 1, "b": 2}, {"a": None, "b": 2}),
        ("o.i", {"o": {"i": 1}}, {"o": {"i": None}}),
        ("new", {"a": 1}, {"a": 1, "new": None}),
        ("o.i", {"o": 5}, {"o": 5}),
        ("o.i", {}, {}),
        ("a", [1], [1]),
    ],
)
def test_replace_when_a_field_is_named_then_the_rest_of_the_object_stays(
    field: str, before: Any, after: Any
) -> None:
    item = Parcel(1, json.dumps(before).encode())
    (changed,) = at_point("replace", field=field).change([item], [0], PARCELS)
    assert json.loads(changed.body) == after


def test_replace_when_the_payload_is_no_json_then_it_stays() -> None:
    item = Parcel(1, b"t_p 5")
    assert at_point("replace", field="a", value=1).change([item], [0], PARCELS) == [item]
    assert at_point("replace", payload="x").change([item], [0], PARCELS) == [Parcel(1, b"x")]


def test_delay_when_it_has_jitter_then_each_hit_has_its_own() -> None:
    assert at_point("delay", ms=10).wait_s(4) == pytest.approx(0.04)
    jittery = at_point("delay", ms=10, jitter_ms=10)
    waits = {jittery.wait_s(1) for _ in range(50)}
    assert len(waits) == 50
    assert 0.01 <= min(waits) <= max(waits) <= 0.02


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("InjectedFault", InjectedFault),
        ("TimeoutError", TimeoutError),
        ("json:JSONDecodeError", json.JSONDecodeError),
        ("UnicodeDecodeError", UnicodeDecodeError),
    ],
)
def test_exceptions_when_injected_then_are_of_the_named_class_and_injected(
    name: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=r"^why$") as caught:
        raise injected(name)("why")
    assert isinstance(caught.value, InjectedFault)


@pytest.mark.parametrize(
    ("name", "parameters", "told"),
    [
        ("delay", {}, "actions.parameters.ms"),
        ("delay", {"ms": -1}, "-1"),
        ("delay", {"ms": 1, "seconds": 1}, "ms, jitter_ms"),
        ("throw", {"error": "SystemExit"}, "SystemExit"),
        ("throw", {"error": "NoSuchError"}, "NoSuchError"),
        ("corrupt", {"how": "melt"}, "'bit_flip' or 'truncate'"),
        ("replace", {}, "either payload, or field and value"),
        ("replace", {"payload": "a", "field": "b"}, "either payload, or field and value"),
        ("emit", {"metric": "x", "value": "1 +"}, "actions.parameters"),
        ("emit", {"metric": "x", "labels": {"a": "{event.}"}}, "actions.parameters"),
        ("emit", {"metric": "No Name"}, "actions.parameters.metric"),
        ("kill", {}, "a point cannot have this fault"),
        ("melt", {}, "there is no such fault"),
    ],
)
def test_actions_when_wrong_then_the_refusal_says_where_and_what_is_allowed(
    name: str, parameters: dict[str, Any], told: str
) -> None:
    assert told in refusal(name, **parameters)
