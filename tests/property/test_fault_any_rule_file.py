"""For any file: its rules are read, or it is refused with its name."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from towpath.contracts.errors import TowpathError
from towpath.lab.faults.rule_files import read_rules
from towpath.lab.faults.validation import problems
from towpath.lab.faults.world import World

LINES = [
    *["name: a", "event: {point: source.read}", "actions: [{fault: delay, parameters: {ms: 1}}]"] * 3,
    *["event: [1]", "event: {target: x, at: 3}", "event: {point: 3, target: 4}", "event: {point: bus.send}"],
    *["actions: {}", "actions: [3]", "actions: [{fault: 3}]", "actions: [{fault: cut, parameters: {x: 1}}]"],
    *["where: 3", "where: {sit: x}", "condition: 3", "condition: 'x >'", "for_s: .inf", "seed: 2013-01-01"],
    *["rules: 3", "rules: {a: 1}", "- a", "---", "...", "<<: 3", "<<: {name: b}", "%YAML 9", "\t", "1: x"],
    *["? [a]\n: b", "null: 3", "a: !!int x", "a: 9999-99-99", "description: &a x", "x: *a", "{", "\x00"],
]


@given(st.lists(st.sampled_from(LINES), max_size=6).map("\n".join))
@example("name: a\nevent: {point: source.read}\nactions: [{fault: drop}]")
def test_rule_file_when_it_is_anything_then_it_is_read_or_refused_with_its_name(text: str) -> None:
    try:
        rules = read_rules(text, "faults.yaml")
    except TowpathError as error:
        messages = [detail.message for detail in error.detail.errors or [error.detail]]
        if not all(message.startswith("faults.yaml") for message in messages):
            raise
    else:
        assert all(isinstance(problems(each.rule, World()), list) for each in rules)
        assert rules
