"""Instability and stability of nodes, and the copies that a round of replication begins and ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from towpath.placement.data.node_history import (
    DAY_S,
    Age,
    NodeHistory,
    age_class,
    instability_per_s,
    stability_node_s,
)
from towpath.placement.data.replication import (
    EndedReplication,
    EndReason,
    Node,
    Replication,
    ReplicationRules,
    ended_replications,
    is_stable,
    paired,
    replications,
    stable_nodes,
    unstable_nodes,
)

NOW_S = 10 * DAY_S
VECTOR = NodeHistory(0.0, tuple(day * DAY_S for day in (1, 5, 9, 9.5)), (2 * DAY_S, 6 * DAY_S))
"""One old failure, one of middle age, two new ones."""

EAGER = ReplicationRules(unstable_from_per_s=1 / DAY_S, unstable_per_round=10)


def steady(name: str, age_s: float = DAY_S, restarts: int = 0) -> Node:
    return Node(name, NodeHistory(NOW_S - age_s, restarts_s=(NOW_S - 1,) * restarts))


def failing(name: str, *hours_ago: float) -> Node:
    return Node(name, NodeHistory(0.0, tuple(NOW_S - 3600 * hours for hours in hours_ago)))


def names(nodes: list[Node]) -> str:
    return " ".join(node.name for node in nodes)


def test_instability_when_a_node_failed_four_times_then_is_9_75_a_day() -> None:
    per_s = instability_per_s(VECTOR, NOW_S)

    assert per_s * DAY_S == pytest.approx(9.75)
    assert per_s == pytest.approx(1.12847e-4, rel=1e-5)


def test_stability_when_a_node_failed_four_times_then_is_minus_140_node_days() -> None:
    node_s = stability_node_s(VECTOR, NOW_S)

    assert node_s / DAY_S == -140


def test_node_when_it_never_failed_then_has_no_instability_and_the_best_stability() -> None:
    history = NodeHistory(0.0)

    assert instability_per_s(history, NOW_S) == 0
    assert stability_node_s(history, NOW_S) == 0


@pytest.mark.parametrize(
    ("days", "age"),
    [(-1, Age.NEW), (0, Age.NEW), (1.99, Age.NEW), (2, Age.MIDDLE), (7, Age.MIDDLE), (7.01, Age.OLD)],
)
def test_age_class_when_two_days_and_a_week_pass_then_changes(days: float, age: Age) -> None:
    assert age_class(NOW_S - days * DAY_S, NOW_S) is age


@pytest.mark.parametrize(
    ("start_s", "failures_s", "restarts_s"),
    [
        (5.0, (5.0,), ()),
        (0.0, (2.0, 1.0), ()),
        (0.0, (2.0, 2.0), ()),
        (0.0, (), (2.0, 1.0)),
        (5.0, (), (4.0,)),
        (float("nan"), (), ()),
    ],
)
def test_history_when_times_are_out_of_order_then_is_refused(
    start_s: float, failures_s: tuple[float, ...], restarts_s: tuple[float, ...]
) -> None:
    with pytest.raises(ValueError, match="must be"):
        NodeHistory(start_s, failures_s, restarts_s)


def test_unstable_nodes_when_several_failed_then_come_by_instability_and_name() -> None:
    nodes = [failing("c", 2, 1.5), failing("b", 2, 1), failing("a", 2, 1), steady("d"), failing("e", 200)]

    found = unstable_nodes(nodes, NOW_S, EAGER)

    assert names(found) == "c a b"


def test_unstable_nodes_when_chosen_recently_or_copied_often_then_are_left_out() -> None:
    node = failing("a", 2, 1)
    often = replace(node, copies_at=frozenset({"x", "y"}))
    partly = replace(node, copies_at=frozenset({"x"}), parts_at=frozenset({"y", "z"}))

    def found(one: Node) -> bool:
        return bool(unstable_nodes([one], NOW_S, EAGER))

    assert not found(replace(node, chosen_at_s=NOW_S - 3599))
    assert found(replace(node, chosen_at_s=NOW_S - 3600))
    assert not found(often)
    assert found(partly)


def test_unstable_nodes_when_the_authors_rules_hold_then_is_one_that_failed_within_minutes() -> None:
    rarely, often = failing("a", 20, 10), failing("b", 0.1, 0.05)

    found = unstable_nodes([rarely, often], NOW_S)

    assert names(found) == "b"


def test_stable_nodes_when_all_are_without_failures_then_come_by_name() -> None:
    nodes = [steady("c"), steady("a", 9 * DAY_S), steady("d", restarts=1), steady("b")]

    found = stable_nodes(nodes, NOW_S, EAGER)

    assert names(found) == "a b c d"


def test_stable_nodes_when_both_restarted_once_then_the_younger_comes_first() -> None:
    nodes = [steady("old", 9 * DAY_S, restarts=1), steady("young", DAY_S, restarts=1)]

    found = stable_nodes(nodes, NOW_S, replace(EAGER, stable_per_round=1))

    assert names(found) == "young"


def test_stability_rule_when_failures_are_recent_then_allows_one() -> None:
    rules = replace(EAGER, unstable_from_per_s=1.0)

    assert is_stable(failing("a", 3), NOW_S, rules)
    assert not is_stable(failing("a", 3, 2), NOW_S, rules)
    assert is_stable(failing("a", 60, 50, 3), NOW_S, rules)


def test_stability_rule_when_a_node_was_unstable_within_the_hour_then_excludes_it() -> None:
    node = steady("a")

    assert not is_stable(replace(node, unstable_at_s=NOW_S - 3599), NOW_S, EAGER)
    assert is_stable(replace(node, unstable_at_s=NOW_S - 3600), NOW_S, EAGER)
    assert not is_stable(failing("a", 2, 1), NOW_S, replace(EAGER, stable_failures=9))


def test_pairs_when_no_node_holds_a_part_then_take_the_pool_in_order() -> None:
    unstable = [failing("u", 1), failing("v", 1), failing("w", 1)]

    found = paired(unstable, [steady("a"), steady("b")])

    assert found == (Replication("u", "a", completes=False), Replication("v", "b", completes=False))


def test_pairs_when_a_node_of_the_top_half_holds_a_part_then_it_is_completed() -> None:
    pool = [steady(name) for name in "abcde"]

    def destination(*parts: str) -> tuple[str, bool]:
        (found,) = paired([replace(failing("u", 1), parts_at=frozenset(parts))], pool)
        return found.destination, found.completes

    assert destination("c") == ("c", True)
    assert destination("c", "b") == ("b", True)
    assert destination("d") == ("a", False)


def test_pairs_when_a_node_has_a_complete_copy_then_it_is_kept_for_the_next() -> None:
    copied = replace(failing("u", 1), copies_at=frozenset({"a"}), parts_at=frozenset({"a"}))

    found = paired([copied, failing("v", 1)], [steady("a"), steady("b")])

    assert found == (Replication("u", "b", completes=False), Replication("v", "a", completes=False))


def test_pairs_when_the_only_stable_node_is_the_owner_then_are_none() -> None:
    assert paired([failing("u", 1)], [failing("u", 1)]) == ()


def test_round_when_one_node_fails_often_then_the_first_stable_one_gets_its_copy() -> None:
    nodes = [failing("u", 2, 1), failing("v", 2, 1), steady("b", restarts=1), steady("c")]

    found = replications(nodes, NOW_S, replace(EAGER, unstable_per_round=1))

    assert found == (Replication("u", "c", completes=False),)


def test_copies_when_owner_is_stable_or_destination_is_not_then_end() -> None:
    healed = replace(steady("a"), copies_at=frozenset({"b", "x"}))
    ill = replace(failing("x", 2, 1), copies_at=frozenset({"y", "a", "gone"}))
    nodes = [ill, healed, failing("y", 2, 1), steady("b")]

    found = list(ended_replications(nodes, NOW_S, EAGER))

    assert found == [
        EndedReplication("a", "b", EndReason.OWNER_STABLE),
        EndedReplication("a", "x", EndReason.OWNER_STABLE),
        EndedReplication("x", "y", EndReason.DESTINATION_UNSTABLE),
    ]
