"""Wrong rules are refused with file and line, the mistake, and the allowed values."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.faults import Rule, TargetKind
from towpath.lab.faults.explanation import explain
from towpath.lab.faults.rule_files import read_rules
from towpath.lab.faults.validation import problems, targets
from towpath.lab.faults.world import World

WORLD = World(
    sites=frozenset({"jfk", "lga"}),
    processes=frozenset(
        {"hub", "coordinator", "injector", "jfk-nats", "jfk-agent", "jfk-engine", "lga-engine"}
    ),
    links=frozenset({"jfk"}),
    jobs=frozenset({"delays"}),
    containers=frozenset({"towpath-jfk-1"}),
)
DELAY = {"fault": "delay", "parameters": {"ms": 10}}


def rule(**fields: Any) -> Rule:
    return Rule.model_validate(
        {"name": "r", "event": {"point": "operator.event"}, "actions": [DELAY], **fields}
    )


def wrong(*, world: World = WORLD, **fields: Any) -> list[ErrorDetail]:
    return problems(rule(**fields), world)


def refused(given: Any) -> list[ErrorDetail]:
    with pytest.raises(TowpathError) as raised:
        read_rules(given, "faults.yaml")
    return raised.value.detail.errors or [raised.value.detail]


def yaml(text: str) -> str:
    return textwrap.dedent(text).lstrip()


# Files


def test_read_rules_when_a_file_has_one_or_a_list_or_several_documents_then_all_are_read() -> None:
    one = yaml("""
        name: a
        event: {point: source.read}
        actions: [{fault: delay, parameters: {ms: 1}}]
    """)
    listed = "- " + one.replace("\n", "\n  ").strip()
    under_rules = yaml("description: two\nrules:\n") + listed + "\n" + listed.replace("name: a", "name: b")
    assert [each.rule.name for each in read_rules(one)] == ["a"]
    assert [each.rule.name for each in read_rules(listed)] == ["a"]
    assert [each.rule.name for each in read_rules(under_rules)] == ["a", "b"]
    assert [each.rule.name for each in read_rules(f"{one}---\n{one.replace('name: a', 'name: c')}")] == [
        "a",
        "c",
    ]


def test_read_rules_when_it_is_json_then_it_is_the_same() -> None:
    document = {"name": "a", "event": {"point": "source.read"}, "actions": [DELAY]}
    expected = [Rule.model_validate(document)]
    for given in (document, [document], {"rules": [document]}):
        assert [each.rule for each in read_rules(json.dumps(given, indent="\t"))] == expected


def test_read_rules_when_several_things_are_wrong_then_each_is_told_with_its_line() -> None:
    errors = refused(
        yaml("""
            rules:
            - name: slow
              event: {point: operator.evnt}
              conditon: every 1000
              actions: [{fault: delay, parameters: {ms: 10}}]
            - name: slow
              event:
                point: operator.event
              condition: payload.startwith("t_p")
              actions:
              - fault: delya
              - fault: delay
                parameters:
                  msec: 10
        """)
    )
    said = {(error.message.partition(": ")[0], error.field): error for error in errors}
    assert said.keys() == {
        ("faults.yaml:3", "event.point"),
        ("faults.yaml:4", "conditon"),
        ("faults.yaml:9", "condition"),
        ("faults.yaml:11", "actions.0.fault"),
        ("faults.yaml:13", "actions.1.parameters.ms"),
        ("faults.yaml:14", "actions.1.parameters.msec"),
    }
    by_field = {error.field: error for error in errors}
    assert "did you mean 'operator.event'?" in by_field["event.point"].one_line()
    assert "source.read" in (by_field["event.point"].allowed or [])
    assert "did you mean 'condition'?" in by_field["conditon"].one_line()
    assert "column 9: there is no function `startwith`" in by_field["condition"].message
    assert "did you mean 'delay'?" in by_field["actions.0.fault"].one_line()
    assert "did you mean 'ms'?" in by_field["actions.1.parameters.msec"].one_line()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "faults.yaml: not YAML at line 1, column 5"),
        ("name: a\nname: b", "faults.yaml: not YAML at line 2, column 1: 'name' occurs twice"),
        ("", "faults.yaml: there are no rules in it"),
        ("[]", "faults.yaml: there are no rules in it"),
        ("rules: []", "faults.yaml: there are no rules in it"),
        ("just words", "faults.yaml:1: this is no rule"),
        ("rules:\n- 3", "faults.yaml:2: this is no rule"),
        ("a: &a [*a]", "faults.yaml: an anchor is used inside itself"),
        ("x: &x [1, 1]\n" + "y: &y [*x, *x, *x]\nz: [*y]\n", "faults.yaml:1: this field is missing"),
        ("- !!python/object/apply:os.getcwd []", "faults.yaml: not YAML at line 1, column 3"),
    ],
)
def test_read_rules_when_the_text_is_no_rule_then_it_is_refused_with_the_place(text: str, says: str) -> None:
    assert refused(text)[0].message.startswith(says)


def test_read_rules_when_anchors_stand_for_billions_then_it_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "too many values" in refused("\n".join(lines))[0].message


def test_read_rules_when_something_stands_beside_the_list_then_it_is_refused() -> None:
    (error,) = refused(
        f"rules: [{json.dumps({'name': 'a', 'event': {'point': 'bus.send'}, 'actions': [DELAY]})}]\nrule: 3"
    )
    assert (error.field, error.message) == ("rule", "faults.yaml:2: there is no such field")


# Rules of a mesh


def test_problems_when_a_rule_is_right_then_there_are_none() -> None:
    assert wrong(where={"job": "delays", "site": "jfk"}, every=1000, condition="event.delay > 3") == []


@pytest.mark.parametrize(
    ("kind", "name", "allowed"),
    [
        ("process", "jfk-egine", sorted(WORLD.processes)),
        ("disk", "missing", sorted(WORLD.processes)),
        ("clock", "jfk-nats", ["coordinator", "injector", "jfk-agent", "jfk-engine", "lga-engine"]),
        ("link", "lga", ["jfk"]),
        ("machine", "ewr", ["hub", "jfk", "lga"]),
        ("container", "missing", ["towpath-jfk-1"]),
    ],
)
def test_problems_when_a_target_does_not_exist_then_those_that_do_are_named(
    kind: str, name: str, allowed: list[str]
) -> None:
    errors = wrong(event={"target": kind, "name": name}, actions=[{"fault": "no_matter"}])
    (error,) = [error for error in errors if error.field == "event.name"]
    assert error.allowed == allowed
    assert error.value == name


@pytest.mark.parametrize(
    ("where", "code", "allowed"),
    [
        ({"site": "ewr"}, ErrorCode.UNKNOWN_SITE, ["hub", "jfk", "lga"]),
        ({"job": "delay"}, ErrorCode.UNKNOWN_JOB, ["delays"]),
        ({"process": "jfk-engin"}, ErrorCode.INVALID, sorted(WORLD.processes)),
    ],
)
def test_problems_when_the_place_does_not_exist_then_those_that_do_are_named(
    where: dict[str, str], code: ErrorCode, allowed: list[str]
) -> None:
    (error,) = wrong(where=where)
    assert (error.code, error.field, error.allowed) == (code, f"where.{next(iter(where))}", allowed)


@pytest.mark.parametrize(
    ("event", "where", "field", "allowed"),
    [
        ({"point": "source.read"}, {"process": "coordinator"}, "where.process", ["jfk-engine", "lga-engine"]),
        ({"point": "source.read"}, {"process": "jfk-nats"}, "where.process", ["jfk-engine", "lga-engine"]),
        ({"point": "agent.command"}, {"process": "jfk-engine"}, "where.process", ["jfk-agent"]),
        ({"point": "source.read"}, {"site": "hub"}, "where.site", ["jfk", "lga"]),
        ({"point": "agent.command"}, {"site": "lga"}, "where.site", ["jfk"]),
        ({"point": "source.read"}, {"site": "lga", "process": "jfk-engine"}, "where.process", ["lga-engine"]),
        ({"point": "source.read"}, {"site": "hub", "process": "hub"}, "where.site", ["jfk", "lga"]),
        ({"target": "clock", "name": "jfk-engine"}, {"site": "lga"}, "where.site", ["jfk"]),
        ({"target": "machine", "name": "jfk"}, {"site": "hub"}, "where.site", ["jfk"]),
    ],
)
def test_problems_when_nothing_at_the_place_would_ever_look_then_the_places_that_would_are_named(
    event: dict[str, str], where: dict[str, str], field: str, allowed: list[str]
) -> None:
    actions = [{"fault": "clock_skew", "parameters": {"seconds": 1}}] if "target" in event else [DELAY]
    errors = [
        error
        for error in wrong(event=event, where=where, actions=actions)
        if error.field and "where" in error.field
    ]
    assert [(error.field, error.allowed) for error in errors] == [(field, allowed)]
    assert errors[0].value == where[field.removeprefix("where.")]


@pytest.mark.parametrize(
    ("event", "where"),
    [
        ({"point": "source.read"}, {"site": "jfk", "process": "jfk-engine"}),
        ({"point": "bus.send"}, {"site": "hub"}),
    ],
)
def test_problems_when_a_process_at_the_place_looks_then_there_are_none(
    event: dict[str, str], where: dict[str, str]
) -> None:
    assert wrong(event=event, where=where) == []


def test_problems_when_a_condition_names_what_the_point_does_not_offer_then_its_names_are_told() -> None:
    (error,) = wrong(event={"point": "bus.send"}, condition="serial > 3")
    assert "the point bus.send offers no `serial`" in error.message
    assert {"payload", "event", "subject", "count"} <= {*(error.allowed or [])}
    assert wrong(event={"point": "source.read"}, condition="serial > 3") == []


def test_problems_when_a_value_that_is_emitted_names_what_is_not_there_then_the_parameter_is_told() -> None:
    emit = {"fault": "emit", "parameters": {"metric": "delay_s", "value": "serail"}}
    (error,) = wrong(actions=[emit])
    assert error.field == "actions.0.parameters.value"
    assert "did you mean 'serial'?" in error.one_line()


def test_problems_when_an_emitted_expression_is_wrong_then_the_parameter_and_the_column_are_told() -> None:
    emit = {"fault": "emit", "parameters": {"metric": "delay_s", "value": "event.delay +"}}
    (error,) = wrong(actions=[emit])
    assert error.field == "actions.0.parameters.value"
    assert "column 14" in error.message


def test_problems_when_a_fault_does_not_fit_the_event_then_those_that_do_are_named() -> None:
    (error,) = wrong(event={"target": "process", "name": "jfk-engine"}, actions=[{"fault": "drop"}])
    assert error.message.startswith("a process cannot have this fault")
    assert "kill" in (error.allowed or [])
    assert "drop" not in (error.allowed or [])


def test_problems_when_the_condition_asks_about_an_unknown_scope_then_the_scopes_are_named() -> None:
    (error,) = wrong(condition='cpu_percent("jfx") > 80.0')
    assert error.code is ErrorCode.UNKNOWN_SITE
    assert "did you mean 'jfk'?" in error.one_line()
    assert wrong(condition='cpu_percent("hub") > 80.0 && memory_percent(site) > 1.0') == []


def test_problems_when_a_job_is_named_where_no_one_knows_jobs_then_it_is_refused() -> None:
    (error,) = wrong(event={"point": "bus.send"}, where={"job": "delays"})
    assert error.field == "where.job"


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"value": 'cpu_percent("jfx")'}, "actions.0.parameters.value"),
        ({"labels": {"used": '{cpu_percent("jfx")}'}}, "actions.0.parameters.labels"),
    ],
)
def test_problems_when_an_emitted_value_asks_about_an_unknown_scope_then_the_parameter_is_told(
    parameters: dict[str, Any], field: str
) -> None:
    (error,) = wrong(actions=[{"fault": "emit", "parameters": {"metric": "used", **parameters}}])
    assert (error.code, error.field) == (ErrorCode.UNKNOWN_SITE, field)
    assert "did you mean 'jfk'?" in error.one_line()


# In words


def test_explain_when_a_rule_is_about_a_point_then_it_says_when_what_and_where() -> None:
    text = explain(
        rule(
            where={"job": "delays", "site": "jfk"},
            every=1000,
            condition="payload.contains('x')",
            once=True,
            for_s=30,
        ),
        WORLD,
    )
    assert "Whenever an event comes to an operator of job delays (operator.event)" in text
    assert "every 1,000th time, if payload.contains('x'), once in each process:" in text
    assert "delay (ms = 10)" in text
    assert "unloads itself after 30 s" in text
    assert "only at jfk; 1 process looks at it now: jfk-engine." in text


def test_explain_when_a_rule_is_wrong_then_it_still_says_what_was_meant() -> None:
    text = explain(rule(condition="evry 3", actions=[{"fault": "nothing"}]), WORLD)
    assert "if evry 3:" in text
    assert "1. nothing." in text
    assert "It counts everywhere; 2 processes look at it now: jfk-engine and lga-engine." in text


def test_targets_when_asked_by_kind_then_only_what_runs_python_has_a_clock() -> None:
    assert "jfk-nats" in targets(TargetKind.PROCESS, WORLD)
    assert "jfk-nats" not in targets(TargetKind.CLOCK, WORLD)
