"""The set of loaded rules: loading, renewing, expiring, counting. Without any process."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.fault_commands import RuleEnd
from towpath.contracts.faults import Rule, RuleCount
from towpath.lab.injector.loaded import MOST_RULES, Change, LoadedRules


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def rule(name: str, **changes: Any) -> Rule:
    return Rule.model_validate(
        {
            "name": name,
            "event": {"point": "operator.event"},
            "actions": [{"fault": "delay", "parameters": {"ms": 10}}],
            **changes,
        }
    )


def load(rules: LoadedRules, *given: Rule, lease_s: float | None = None) -> Change:
    return rules.load({each.name: (each, ("jfk", "lga")) for each in given}, lease_s)


def names(rules: LoadedRules) -> list[str]:
    return [each.name for each in rules]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rules(clock: Clock) -> LoadedRules:
    return LoadedRules(clock=clock)


def test_rules_are_told_to_their_scopes_when_they_are_loaded(rules: LoadedRules) -> None:
    change = load(rules, rule("slow"), rule("loss"))
    assert [each.name for each in change.loaded] == ["slow", "loss"]
    assert change.scopes == {"jfk", "lga"}
    assert [told.rule.name for told in rules.told("jfk")] == ["loss", "slow"]
    assert rules.told("hub") == []


def test_rule_about_a_link_is_told_to_no_scope_when_it_is_loaded(rules: LoadedRules) -> None:
    cut = rule("cut", event={"target": "link", "name": "jfk"}, actions=[{"fault": "cut"}])
    rules.load({"cut": (cut, ("hub",))}, None)
    assert rules.told("hub") == []
    assert [each.name for each in rules.about_links()] == ["cut"]


def test_nothing_changes_when_an_equal_rule_is_loaded_again(rules: LoadedRules) -> None:
    load(rules, rule("slow"))
    assert rules.different([rule("slow"), rule("slow", once=True)]) == [rule("slow", once=True)]
    change = load(rules, rule("slow"))
    assert (change.loaded, change.ended, change.scopes) == ((), (), frozenset())
    assert rules.views(())[0].version == 1


def test_version_counts_up_and_the_former_one_ends_when_a_rule_is_replaced_or_loaded_again(
    rules: LoadedRules,
) -> None:
    load(rules, rule("slow"))
    [replaced] = load(rules, rule("slow", once=True)).ended
    assert (replaced.loaded.told.version, replaced.why) == (1, RuleEnd.REPLACED)
    rules.unload(None)
    load(rules, rule("slow"))
    assert rules.views(())[0].version == 3
    after_restart = LoadedRules(rules.versions)
    load(after_restart, rule("slow"))
    assert after_restart.views(())[0].version == 4


def test_rules_are_gone_when_they_are_unloaded_by_name_or_all(rules: LoadedRules) -> None:
    load(rules, rule("a"), rule("b"), rule("c"))
    assert [each.loaded.name for each in rules.unload(["b", "unknown", "b"]).ended] == ["b"]
    assert names(rules) == ["a", "c"]
    assert {each.why for each in rules.unload(None).ended} == {RuleEnd.UNLOADED}
    assert names(rules) == []


def test_rule_ends_when_its_own_time_is_over_however_often_it_is_renewed(
    rules: LoadedRules, clock: Clock
) -> None:
    load(rules, rule("short", for_s=10), rule("long"))
    clock.seconds += 9
    load(rules, rule("short", for_s=10), lease_s=60)
    assert rules.expire().ended == ()
    clock.seconds += 1
    assert [(each.loaded.name, each.why) for each in rules.expire().ended] == [("short", RuleEnd.EXPIRED)]
    assert names(rules) == ["long"]


def test_rules_end_when_their_loader_does_not_renew_them(rules: LoadedRules, clock: Clock) -> None:
    load(rules, rule("a"), rule("b"), lease_s=5)
    clock.seconds += 4
    load(rules, rule("a"), lease_s=5)
    clock.seconds += 4
    assert [each.loaded.name for each in rules.expire().ended] == ["b"]
    assert names(rules) == ["a"]
    view = rules.views(())[0]
    assert view.until is not None
    load(rules, rule("a"))
    assert rules.views(())[0].until is None


def test_lease_is_another_one_when_the_loaded_version_is_renewed(rules: LoadedRules, clock: Clock) -> None:
    load(rules, rule("slow"), lease_s=5)
    clock.seconds += 4
    rules.renew({"slow": 1}, 5)
    clock.seconds += 4
    assert rules.expire().ended == ()


def test_nothing_is_loaded_or_kept_when_another_version_is_renewed(rules: LoadedRules, clock: Clock) -> None:
    load(rules, rule("slow"), lease_s=5)
    clock.seconds += 4
    rules.renew({"slow": 2, "gone": 1}, 5)
    assert names(rules) == ["slow"]
    clock.seconds += 4
    assert [ended.loaded.name for ended in rules.expire().ended] == ["slow"]


def test_counts_of_scopes_are_added_up_and_those_of_other_versions_left_out(rules: LoadedRules) -> None:
    load(rules, rule("slow"))
    rules.note("jfk", RuleCount(rule="slow", version=1, looked=10, acted=1))
    rules.note("jfk", RuleCount(rule="slow", version=1, looked=20, acted=2))
    rules.note("lga", RuleCount(rule="slow", version=1, looked=5, errors=1, last_error="no such field"))
    rules.note("lga", RuleCount(rule="slow", version=7, looked=1_000))
    count = rules.views(())[0].count
    assert (count.looked, count.acted, count.errors, count.last_error) == (25, 2, 1, "no such field")


def test_last_counts_are_taken_in_when_a_rule_has_ended_until_it_is_forgotten(rules: LoadedRules) -> None:
    load(rules, rule("slow"))
    [ended] = rules.unload(["slow"]).ended
    rules.note("jfk", RuleCount(rule="slow", version=1, looked=3))
    assert ended.loaded.count.looked == 3
    rules.forget([ended])
    rules.note("jfk", RuleCount(rule="slow", version=1, looked=9))
    assert ended.loaded.count.looked == 3


def test_scopes_that_do_not_answer_are_named_when_a_rule_is_for_them(rules: LoadedRules) -> None:
    load(rules, rule("slow"))
    assert rules.views({"lga", "cloud"})[0].unreached == ["lga"]


def test_none_is_loaded_when_there_would_be_too_many(rules: LoadedRules) -> None:
    load(rules, *(rule(f"r{number}") for number in range(MOST_RULES)))
    with pytest.raises(TowpathError) as refused:
        load(rules, rule("r0", once=True), rule("one-more"))
    assert refused.value.detail.code is ErrorCode.NOT_ALLOWED
    assert rules.different([rule("r0")]) == []
    load(rules, rule("r0", once=True))
