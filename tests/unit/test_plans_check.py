"""Plans against a catalogue: all that does not fit is said at once, before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from towpath.contracts.device_catalogue import EXAMPLE_CATALOGUE, DeviceCatalogue
from towpath.contracts.errors import ErrorDetail, TowpathError
from towpath.contracts.plan import EXAMPLE_PLAN, DeploymentPlan
from towpath.plans.check import check
from towpath.plans.documents import read_catalogue, read_plan
from towpath.plans.order import find_cycle, order_numbers
from towpath.plans.software import missing_software

EXAMPLES = Path(__file__).parents[2] / "examples" / "plans"
CATALOGUE = read_catalogue((EXAMPLES / "catalogue.yaml").read_text())
PLAN = read_plan((EXAMPLES / "temperatures.yaml").read_text()).plan


def operation(name: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "executes": {"package": {"name": "average.dp"}},
        "placement": {"devices": ["pi-1"]},
        **more,
    }


def plan(*operations: dict[str, Any], **more: Any) -> DeploymentPlan:
    return DeploymentPlan.model_validate({"plan": "p", "operations": operations, **more})


def errors(*operations: dict[str, Any], **more: Any) -> list[ErrorDetail]:
    with pytest.raises(TowpathError) as refused:
        check(plan(*operations, **more), CATALOGUE)
    return refused.value.detail.errors


def test_example_when_checked_then_servers_come_first_and_each_device_has_its_operations() -> None:
    found = check(PLAN, CATALOGUE)

    assert [(o.order, o.operation, o.after, o.devices) for o in found] == [
        (1, "readings", [], ["broker-1"]),
        (2, "average", ["readings"], ["pi-1", "pi-2", "pi-3", "pi-4"]),
        (2, "forecast", ["readings"], ["vm-1"]),
    ]
    assert found[1].package is not None
    assert found[1].package.url == "https://packages.example.org/average-1.2.0.dp"


def test_listing_of_the_thesis_when_checked_against_its_devices_then_fits() -> None:
    listing = read_plan((EXAMPLES / "thesis-a1.json").read_text(), name="thesis").plan
    catalogue = read_catalogue((EXAMPLES / "thesis-catalogue.yaml").read_text())

    found = check(listing, catalogue)

    assert [(o.order, o.operation) for o in found] == [(1, "002"), (2, "001"), (2, "003")]


def test_examples_of_the_contracts_when_checked_then_fit_each_other() -> None:
    example = DeploymentPlan.model_validate(EXAMPLE_PLAN)

    (found,) = check(example, DeviceCatalogue.model_validate(EXAMPLE_CATALOGUE))

    assert found.devices == ["pi-1"]


def test_plan_when_much_is_wrong_then_all_is_said_at_once() -> None:
    found = errors(
        operation("a", reads_from=["sensor"], runs_on={"resources": {"memory": "2 GB", "clock": "3 GHz"}}),
        operation("b", runs_on={"software": ["Docker"], "metadata": {"type": "gatway"}}),
        operation("c", placement={"devices": ["pi-9", "x-*"]}),
        operation("d", executes={"package": {"name": "averag.dp"}}),
        operation("e", application="a"),
        outside=["sensors"],
    )

    assert {error.field: error.message.partition("; did you mean ")[2] for error in found} == {
        "operations[0].reads_from[0]": "'sensors'?",
        "operations[0].runs_on.resources.memory": "",
        "operations[0].runs_on.resources.clock": "",
        "operations[1].runs_on.software[0]": "",
        "operations[1].runs_on.metadata.type": "'gateway'?",
        "operations[2].placement.devices[0]": "'pi-4'?",
        "operations[2].placement.devices[1]": "",
        "operations[3].executes.package.name": "'average.dp'?",
        "operations[4].application": "",
    }


def test_devices_when_written_in_another_case_then_the_right_name_is_told() -> None:
    (error,) = errors(operation("a", placement={"devices": ["PI-1"]}))

    assert error.message == "unknown device; did you mean 'pi-1'?"


def test_memory_when_operations_share_a_device_then_their_sum_must_fit() -> None:
    half = {"resources": {"memory": "600 MB"}}

    (error,) = errors(operation("a", runs_on=half), operation("b", runs_on=half))

    assert error.field == "operations[1].runs_on.resources.memory"
    assert "pi-1 (1 GB): 1.2 GB are needed, as it runs a, b together" in error.message


def test_operations_when_they_read_from_each_other_then_the_cycle_is_told() -> None:
    (error,) = errors(operation("a", reads_from=["b"]), operation("b", reads_from=["a"]))

    assert error.field == "operations"
    assert "a → b → a" in error.message or "b → a → b" in error.message


def test_placement_when_it_has_labels_then_devices_with_all_of_them_are_chosen() -> None:
    both = {"devices": ["pi-*"], "labels": {"district": "heaton"}}

    (found,) = check(plan(operation("a", placement=both)), CATALOGUE)

    assert found.devices == ["pi-3", "pi-4"]


def test_placement_when_no_device_has_the_label_then_known_labels_are_told() -> None:
    (error,) = errors(operation("a", placement={"labels": {"district": "heatn"}}))

    assert error.message.endswith("did you mean 'district: heaton'?")


@pytest.mark.parametrize(
    ("needed", "present", "missing"),
    [
        (["Java 11"], ["Java 17.0.2"], []),
        (["Java 21"], ["Java 17.0.2"], ["Java 21"]),
        (["java"], ["Java 8"], []),
        (["Ubuntu 14.04"], ["Ubuntu"], []),
        (["Docker", "Kura"], ["Kura 5.4"], ["Docker"]),
    ],
)
def test_software_when_compared_then_the_version_named_is_the_least(
    needed: list[str], present: list[str], missing: list[str]
) -> None:
    assert missing_software(needed, present) == missing


def test_order_when_operations_depend_on_each_other_then_numbers_grow() -> None:
    assert order_numbers({"c": {"a", "b"}, "b": {"a"}, "a": set()}) == {"a": 1, "b": 2, "c": 3}
    assert find_cycle({"a": set(), "b": {"a"}}) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "plan: p\noperations:\n  - {id: a, executes: {kind: install}, placement: {devices: [x]}}",
            "executes",
        ),
        ("plan: p\noperations: []\nrollout: {waves: [50%, 20%, 100%]}", "rollout.waves"),
        ("plan: p\noperations: []\nrollout: {waves: [50%]}", "rollout.waves"),
        ("plan: p\noperations: []\nrollout: {success: 120%}", "rollout.success"),
        ("plan: P\noperations: []", "plan"),
    ],
)
def test_own_format_when_wrong_then_the_error_names_the_place(text: str, place: str) -> None:
    with pytest.raises(TowpathError) as refused:
        read_plan(text)

    assert any(place in (error.field or "") for error in refused.value.detail.errors)


def test_document_when_it_is_no_plan_then_both_formats_are_told() -> None:
    with pytest.raises(TowpathError, match="describes no deployment plan"):
        read_plan("jobs: []")


def test_catalogue_when_two_devices_have_one_id_then_is_refused() -> None:
    with pytest.raises(TowpathError, match="also has this id"):
        read_catalogue("devices: [{id: a}, {id: a}]")


def test_cluster_when_its_devices_have_addresses_then_each_is_told_of_all() -> None:
    listing = read_plan((EXAMPLES / "thesis-a1.json").read_text(), name="thesis").plan
    catalogue = read_catalogue((EXAMPLES / "thesis-catalogue.yaml").read_text())

    forecast = next(o for o in check(listing, catalogue) if o.operation == "003")

    assert forecast.arguments["spark.workers"] == 5
    assert forecast.arguments["spark.devices"] == "VM-1=10.0.0.11, VM-2=10.0.0.12, VM-3=10.0.0.13"


def test_cluster_when_a_device_has_no_address_then_it_is_named() -> None:
    task = {"package": {"name": "average.dp"}, "arguments": {"spark.workers": 2}}

    (error,) = errors(operation("a", executes=task, placement={"devices": ["pi-1", "pi-2"]}))

    assert error.field == "operations[0].executes.arguments.spark.workers"
    assert "pi-1, pi-2" in error.message


def test_cluster_when_it_has_one_device_then_its_arguments_stay() -> None:
    task = {"package": {"name": "average.dp"}, "arguments": {"spark.workers": 2}}

    (found,) = check(plan(operation("a", executes=task)), CATALOGUE)

    assert found.arguments == {"spark.workers": 2}
