"""Faults come to named points and to targets outside code, and never to what keeps a mesh safe."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from towpath.contracts.fault_commands import FAULT_COMMANDS, FAULT_EVENTS, RULE_COMMANDS
from towpath.contracts.faults import DataPoint, Rule, TargetKind
from towpath.contracts.metrics import METRICS
from towpath.hooks.points import POINTS

DATA_PATH = {
    *("source.read", "operator.batch", "operator.event", "sink.publish", "engine.progress"),
    *("checkpoint.ship", "agent.command", "bus.send", "bus.receive"),
}


def test_points_when_listed_then_are_those_of_the_data_path_and_no_others() -> None:
    # Admission, permissions, the bus' authentication and the journal must not be among them. This test
    # reminds anyone who adds a point.
    assert {point.value for point in DataPoint} == POINTS.keys() == DATA_PATH
    assert {kind.value for kind in TargetKind} == {
        *("process", "link", "machine", "disk", "clock", "container")
    }


@pytest.mark.parametrize(
    "event",
    [
        {"code": "towpath.coordinator.handlers:Handlers.serve"},
        {"code": "towpath.mesh.permissions:operator"},
        {"code": "towpath.bus.connecting:connect_persistently"},
        {"point": "journal"},
        {"point": "admission"},
        {"target": "permissions", "name": "jfk"},
    ],
)
def test_rule_when_it_names_a_function_or_an_unknown_point_then_is_no_rule(event: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Rule.model_validate({"name": "r", "event": event, "actions": [{"fault": "throw"}]})


def test_messages_about_rules_when_sent_then_pass_no_point() -> None:
    kinds = (*FAULT_COMMANDS, *RULE_COMMANDS, *FAULT_EVENTS, *METRICS)
    assert all(kind.exempt for kind in kinds)
