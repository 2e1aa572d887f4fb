"""The demands of a rule on the whole mesh are known before it is loaded."""

from __future__ import annotations

from towpath.contracts.faults import Rule
from towpath.lab.faults.rule_actions import asked_by


def rule(condition: str = "true", **parameters: object) -> Rule:
    return Rule.model_validate(
        {
            "name": "measured",
            "event": {"point": "engine.progress"},
            "condition": condition,
            "actions": [{"fault": "emit", "parameters": {"metric": "seen", **parameters}}],
        }
    )


def test_rule_when_its_condition_names_another_site_then_that_is_asked_for() -> None:
    assert asked_by(rule('cpu_percent("jfk") > 80.0 && count > 10')) == {"cpu_percent(jfk)"}


def test_rule_when_only_what_it_measures_names_a_site_then_that_is_asked_for_as_well() -> None:
    labels = {"where": '{memory_percent("lga")}', "plain": "text"}
    assert asked_by(rule(value="cpu_percent('jfk') * 2.0", labels=labels)) == {
        "cpu_percent(jfk)",
        "memory_percent(lga)",
    }


def test_rule_when_it_asks_for_nothing_then_nothing_is_measured_for_it() -> None:
    assert asked_by(rule("count > 10", value="event.batchId")) == frozenset()
