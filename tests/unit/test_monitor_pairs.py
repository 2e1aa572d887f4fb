"""Compare the results of two runs in pairs by message id."""

from __future__ import annotations

import json
from typing import Any

import pytest

from towpath.monitor.pairs import Pairs, difference


def body(**changes: Any) -> bytes:
    result = {
        "job": "j",
        "site": "jfk",
        "epoch": 2,
        "serial": 7,
        "key": {"carrier": "UA"},
        "values": {"n": 3},
    }
    return json.dumps({**result, **changes}).encode()


OTHER_RUN = {"site": "cloud", "epoch": 4}


def test_pair_is_not_suspected_when_only_site_and_epoch_differ() -> None:
    pairs = Pairs()
    assert pairs.from_source("x", 1, body()) is None
    assert pairs.from_target("x", 9, body(**OTHER_RUN)) is None
    assert (pairs.compared, pairs.target_covered(9)) == (1, 9)


def test_pair_is_not_suspected_when_sums_differ_by_the_order_of_addition() -> None:
    pairs = Pairs()
    pairs.from_target("x", 1, body(values={"mean": 0.1 + 0.2 + 0.3}))
    assert pairs.from_source("x", 1, body(values={"mean": 0.3 + 0.2 + 0.1})) is None
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"values": {"n": 4}}, "values.n"),
        ({"values": {"n": 3, "m": 1}}, "values.m"),
        ({"serial": 8}, "serial"),
        ({"key": {"carrier": "AA"}}, "key.carrier"),
        ({"values": {"n": True}}, "values.n"),
        ({"values": {"n": [3]}}, "values.n"),
    ],
)
def test_pair_is_suspected_and_differs_when_a_value_is_another(changes: dict[str, Any], path: str) -> None:
    pairs = Pairs()
    pairs.from_source("x", 1, body())
    suspicion = pairs.from_target("x", 2, body(**OTHER_RUN, **changes))
    assert suspicion is not None
    assert (suspicion.source_serial, suspicion.target_serial) == (1, 2)
    found = difference(body(), body(**OTHER_RUN, **changes))
    assert found is not None
    assert found.path == path


def test_pair_does_not_differ_when_a_rounding_boundary_made_it_suspect() -> None:
    ours, theirs = body(values={"m": 1.00000000051}), body(values={"m": 1.00000000049})
    pairs = Pairs()
    pairs.from_source("x", 1, ours)
    assert pairs.from_target("x", 2, theirs) is not None
    assert difference(ours, theirs) is None


def test_target_is_covered_up_to_its_first_result_that_the_source_lacks() -> None:
    pairs = Pairs()
    for serial, name in enumerate("abc", start=1):
        pairs.from_target(name, serial, body())
    pairs.from_source("a", 1, body())
    pairs.from_source("c", 2, body())
    assert pairs.target_covered(3) == 1
    pairs.from_source("b", 3, body())
    assert pairs.target_covered(3) == 3
    pairs.give_up(3)
    assert pairs.target_covered(9) == 2


def test_oldest_results_are_given_up_when_too_many_wait() -> None:
    pairs = Pairs(most_waiting=2)
    for serial, name in enumerate("abc", start=1):
        pairs.from_target(name, serial, body())
    assert pairs.from_source("a", 1, body(serial=99)) is None
    assert pairs.from_source("c", 2, body(serial=99)) is not None
    assert (pairs.compared, pairs.target_covered(3)) == (1, 0)


def test_runs_are_level_when_each_has_what_the_other_published_last() -> None:
    pairs = Pairs()
    assert pairs.level
    pairs.from_source("before the checkpoint", 1, body())
    assert not pairs.level
    pairs.from_target("a", 1, body())
    assert not pairs.level
    pairs.from_source("a", 2, body())
    assert pairs.level
    pairs.from_source("b", 3, body())
    assert not pairs.level
    pairs.from_target("b", 2, body())
    assert pairs.level
    pairs.from_target("c", 3, body())
    assert not pairs.level
