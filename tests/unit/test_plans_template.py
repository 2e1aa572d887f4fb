"""The thesis's template of plans: what is printed is read as it is meant, and each doubt is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from towpath.contracts.errors import TowpathError
from towpath.contracts.plan import TaskKind
from towpath.plans.documents import ReadPlan, read_plan

LISTING = (Path(__file__).parents[2] / "examples" / "plans" / "thesis-a1.json").read_text()

FIRST = "Computation[0].Operation[1]"
SECOND = "Computation[1].Operation[1]"
THIRD = "Computation[2].Operation[1]"
PLACED = "Computation[3].Placement"


def read(text: str = LISTING) -> ReadPlan:
    return read_plan(text, name="temperatures")


def warnings(text: str = LISTING) -> dict[str, Any]:
    return {warning.field: warning.read_as for warning in read(text).warnings}


def test_listing_when_read_then_operations_have_their_relations() -> None:
    plan = read().plan

    assert [(o.id, o.app, o.executes.kind) for o in plan.operations] == [
        ("001", "filter", TaskKind.INSTALL),
        ("002", "mosquitto", TaskKind.INGESTION),
        ("003", "timeseries-forecast", TaskKind.INSTALL),
    ]
    assert [(o.reads_from, o.writes_to) for o in plan.operations] == [
        (["sensors"], ["002"]),
        (["001"], ["003"]),
        (["002"], ["DB"]),
    ]
    assert plan.outside == ["sensors", "DB"]
    assert [o.placement.devices for o in plan.operations] == [
        ["PI-1", "PI-2"],
        ["ActiveMQ"],
        ["VM-1", "VM-2", "VM-3"],
    ]


def test_listing_when_read_then_nodes_are_typed() -> None:
    first, second, third = (operation.runs_on for operation in read().plan.operations)

    assert first.metadata.place is not None
    assert (first.metadata.place.latitude, first.metadata.place.longitude) == (54.977722, -1.625544)
    assert (first.resources.clock, first.resources.memory) == (1.4, 1_000_000_000)
    assert first.software == ["Raspbian", "Java", "OSGi", "Kura"]
    assert (second.resources.cpus, second.metadata.other) == (4, {"Protocol": "MQTT"})
    assert third.software == ["Ubuntu 14.04", "Java", "Docker"]


def test_listing_when_read_then_arguments_have_right_names_and_types() -> None:
    first, _, third = read().plan.operations

    assert first.executes.arguments == {
        "publish.topic": "temp-readings",
        "publish.rate": 5,
        "publish.qos": 2,
    }
    assert third.executes.arguments == {
        "subscribe.topic": "temp-readings",
        "main.class": "forecast.Main",
        "rdd.batchsize": 1,
        "spark.workers": 5,
    }


@pytest.mark.parametrize(
    ("place", "read_as"),
    [
        ("line 16, column 113", '{"spark.workers":"5"}'),
        (f"{FIRST}.task[0].Type", "install"),
        (f'{FIRST}.task[2].Arguments[2]["publish.gos"]', "publish.qos"),
        (f"{FIRST}.node[1].softeware_stack", "software_stack"),
        (f"{FIRST}.node[0].metadata[3].location", {"latitude": 54.977722, "longitude": -1.625544}),
        (f"{FIRST}.node[1].softeware_stack[0].OS", "Raspbian"),
        (f"{FIRST}.source", None),
        (f"{FIRST}.target", "002"),
        (f"{SECOND}.node[1].softeware_stack", "software_stack"),
        (f"{SECOND}.node[2].resources[0].CPU", "4 vCPUs"),
        (f"{SECOND}.target", "003"),
        (f'{THIRD}["data in"]', "source"),
        (f"{THIRD}.task[0].Type", "install"),
        (f'{THIRD}.task[2].Arguments[0]["suscribe.topic"]', "subscribe.topic"),
        (f'{THIRD}.task[2].Arguments[2]["rdd.bachsize"]', "rdd.batchsize"),
        (f"{THIRD}.node[1].softeware_stack", "software_stack"),
        (f"{THIRD}.node[2].resources[0].CPU", "4 vCPUs"),
        (f"{THIRD}.target", None),
        (f'{PLACED}[0]["OP ID"]', "OP-ID"),
        (f'{PLACED}[0]["P ID"]', ["PI-1", "PI-2"]),
        (f'{PLACED}[1]["P ID"]', ["ActiveMQ"]),
        (f'{PLACED}[2]["P ID"]', ["VM-1", "VM-2", "VM-3"]),
    ],
)
def test_listing_when_it_does_not_say_what_it_means_then_a_warning_names_the_place(
    place: str, read_as: Any
) -> None:
    found = warnings()

    assert place in found
    assert found[place] == read_as


def test_listing_when_its_slip_is_repaired_by_hand_then_reads_the_same_without_that_warning() -> None:
    repaired = LISTING.replace('{"spark.workers"5"}', '{"spark.workers":"5"}')
    json.loads(repaired)

    assert read(repaired).plan == read().plan
    assert len(read(repaired).warnings) == len(read().warnings) - 1


def test_listing_of_the_chapter_when_keys_have_no_quotes_then_its_node_is_its_device() -> None:
    text = (
        '{Operation:[{OP-ID:"001"},{source:"sensors",node:[{metadata:[{ID:"GW-01"}]}],'
        'task:[{Type:"deploy"},{binary:"filter.dp"}],target:"MQTT broker"}]}'
    )

    plan = read(text).plan

    assert plan.operations[0].placement.devices == ["GW-01"]
    assert plan.outside == ["sensors", "MQTT broker"]
    assert "line 1" in warnings(text)


def test_template_when_its_task_is_update_then_it_configures() -> None:
    text = LISTING.replace('"deploy"', '"update"').replace('"publish.rate":"5"', '"publish.rate":"10"')

    first = read(text).plan.operations[0].executes

    assert first.kind is TaskKind.CONFIGURE
    assert first.arguments["publish.rate"] == 10


def test_template_when_names_are_lists_then_streams_are_merged_and_split() -> None:
    text = LISTING.replace('"source":"sensors"', '"source":"sensors, weather"')
    text = text.replace('"target":"DB"', '"target":["DB","page"]')

    first, _, third = read(text).plan.operations

    assert (first.reads_from, third.writes_to) == (["sensors", "weather"], ["DB", "page"])


def test_template_when_coordinates_are_plausible_then_they_stay() -> None:
    text = LISTING.replace('"54.977722"', '"13.4"').replace('"-1.625544"', '"52.5"')

    place = read(text).plan.operations[0].runs_on.metadata.place

    assert place is not None
    assert (place.latitude, place.longitude) == (52.5, 13.4)


@pytest.mark.parametrize(
    ("printed", "wrong", "place"),
    [
        ('"ingestion"', '"dance"', f"{SECOND}.task[0].Type"),
        ('"memory":"1GB"', '"memory":"much"', f"{FIRST}.node[2].resources[1].memory"),
        ('"OP ID":"001"', '"OP ID":"009"', f'{PLACED}[0]["OP ID"]'),
        ('{"OP-ID":"002"}', '{"OP-ID":"001"}', f"{SECOND.removesuffix('[1]')}"),
        ('"target":"DB"', '"goal":"DB"', f"{THIRD}.goal"),
        ('{"OP-ID":"003"}', '{"OP-ID":"a/b"}', "Computation[2].Operation[0].OP-ID"),
    ],
)
def test_template_when_a_part_has_no_meaning_then_the_error_names_the_place(
    printed: str, wrong: str, place: str
) -> None:
    assert printed in LISTING

    with pytest.raises(TowpathError) as refused:
        read(LISTING.replace(printed, wrong))

    assert place in [error.field for error in refused.value.detail.errors]
