"""Kinds of applications: what a manifest may say, and which processes a Spark cluster has on a device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from running.places import ROOT
from towpath.contracts.gateway import Code
from towpath.gateway.spark.commands import JOB_VARIABLE, Machine, checkpoint, wanted
from towpath.gateway.spark.processes import Command
from towpath.gateways.kinds import spark
from towpath.gateways.kinds.kind import kind_named
from towpath.gateways.manifest import read_manifest, with_properties
from towpath.gateways.refusal import Refusal
from towpath.plans.check import check
from towpath.plans.documents import read_catalogue, read_plan

DEVICES = "vm-1=10.0.0.1,vm-2=10.0.0.2"


def manifest(**changes: Any) -> bytes:
    content = {
        "name": "forecast",
        "version": "1",
        "kind": "spark",
        "script": "forecast.py",
        "input": {"topics": ["site/$subscribe.topic", "other/$unknown"]},
        "output": "site/forecasts",
        "properties": {"subscribe.topic": "readings", "batch": 1, "spark.sql.shuffle.partitions": 4},
        **changes,
    }
    return json.dumps(content).encode()


def values(**changes: Any) -> dict[str, Any]:
    properties = {name.replace("_", "."): value for name, value in changes.items()}
    return with_properties(read_manifest(manifest()), {}, properties)


def commands(device: str = "vm-1", **changes: Any) -> dict[str, Command]:
    return wanted(machine(device), values(**changes))


def machine(device: str = "vm-1") -> Machine:
    return Machine(
        spark_home=Path("/spark"),
        script=Path("/package/forecast.py"),
        device=device,
        scratch=Path("/own/forecast.d/scratch"),
        own=Path("/own/forecast.d"),
        generation="g",
        feed="feed",
        alone_port=4040,
        page_port=4041,
    )


def test_manifest_when_its_kind_is_spark_then_has_the_properties_of_a_cluster() -> None:
    read = read_manifest(manifest())

    assert (read.properties["spark.workers"], read.properties["spark.worker.memory"]) == (1, "512m")


def test_application_when_a_property_gives_it_longer_to_start_then_may_take_as_long() -> None:
    kind = kind_named("spark")

    assert kind.ready_s(values(spark_ready_seconds=900)) == 900
    assert kind.ready_s(values()) == kind.ready_s({"installed before": "there was such a property"}) == 240


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "sparks"}, "kind"),
        ({"script": ""}, "script"),
        ({"script": "../forecast.py"}, "script"),
        ({"properties": {"spark.workers": -1}}, "spark.workers"),
        ({"properties": {"spark.workers": 1.5}}, "spark.workers"),
        ({"properties": {"spark.worker.memory": "100m"}}, "spark.worker.memory"),
        ({"properties": {"spark.worker.memory": "lots"}}, "spark.worker.memory"),
        ({"properties": {"spark.devices": "vm-1"}}, "spark.devices"),
        ({"properties": {"spark.directory": "shared"}}, "spark.directory"),
        ({"properties": {"spark.ready.seconds": 0}}, "spark.ready.seconds"),
        ({"kind": "operators"}, "operators"),
    ],
)
def test_manifest_when_it_is_wrong_for_its_kind_then_the_field_is_named(
    change: dict[str, Any], field: str
) -> None:
    with pytest.raises(Refusal) as refused:
        read_manifest(manifest(**change))

    assert [problem.field for problem in refused.value.problems] == [field]


def test_topics_when_they_name_a_property_then_have_its_value() -> None:
    kind, read = kind_named("spark"), read_manifest(manifest())

    assert kind.topics(read, values(spark_workers=1), "vm-1") == ["site/readings", "other/$unknown"]
    assert kind.topics(read, values(spark_workers=0), "vm-1") == []


def test_device_when_java_and_pyspark_are_missing_then_both_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "forecast.py").touch()
    monkeypatch.setattr(spark, "java_version", lambda: None)
    monkeypatch.setattr(spark, "spark_home", lambda: None)

    with pytest.raises(Refusal) as refused:
        kind_named("spark").check_device(read_manifest(manifest()), tmp_path)

    assert refused.value.code is Code.FAILED
    assert [problem.field for problem in refused.value.problems] == ["java", "pyspark"]


def test_cluster_when_it_has_no_workers_then_nothing_runs() -> None:
    assert commands(spark_workers=0) == {}


def test_cluster_when_scaled_then_neither_master_nor_job_nor_other_workers_change() -> None:
    two, three = commands(spark_workers=2), commands(spark_workers=3)

    assert [*three] == ["master", "worker-1", "worker-2", "worker-3", "job"]
    assert {name: three[name] for name in two} == two


def test_cluster_when_the_script_gets_other_properties_then_the_job_alone_changes() -> None:
    before, after = commands(spark_workers=1, batch=1), commands(spark_workers=1, batch=2)

    assert [name for name in before if before[name] != after[name]] == ["job"]


def test_cluster_when_it_has_several_devices_then_the_first_has_master_and_job() -> None:
    first = commands("vm-1", spark_workers=3, spark_devices=DEVICES)
    second = commands("vm-2", spark_workers=3, spark_devices=DEVICES)

    assert [*first] == ["master", "worker-1", "worker-2", "job"]
    assert [*second] == ["worker-1"]
    assert "spark://10.0.0.1:7077" in second["worker-1"].arguments
    assert "10.0.0.2" in second["worker-1"].arguments


def test_job_when_it_starts_then_gets_its_own_properties_and_settings_of_spark() -> None:
    settings = json.loads(commands(spark_workers=1)["job"].environment[JOB_VARIABLE])

    assert settings["properties"] == {"subscribe.topic": "readings", "batch": 1}
    assert settings["spark"]["spark.sql.shuffle.partitions"] == "4"
    assert settings["spark"]["spark.master"] == "spark://127.0.0.1:4040"


def test_checkpoint_when_devices_share_a_directory_then_is_in_it() -> None:
    assert checkpoint(machine(), values()) == Path("/own/forecast.d/checkpoint-g")
    assert checkpoint(machine(), values(spark_directory="/shared")) == Path(
        "/shared/forecast-vm-1/checkpoint-g"
    )
    kind, read = kind_named("spark"), read_manifest(manifest())
    shared = values(spark_directory="/shared", spark_workers=2, spark_devices=DEVICES)
    assert kind.directories(read, shared, "vm-1") == [Path("/shared/forecast-vm-1")]
    assert kind.directories(read, values(), "vm-1") == []


def test_example_when_the_thesis_configures_it_then_takes_all_arguments() -> None:
    listing = read_plan((ROOT / "examples/plans/thesis-a1.json").read_text(), name="thesis").plan
    catalogue = read_catalogue((ROOT / "examples/plans/thesis-catalogue.yaml").read_text())
    operation = next(each for each in check(listing, catalogue) if each.operation == "003")
    example = read_manifest((ROOT / "examples/gateways/timeseries-forecast/manifest.json").read_bytes())

    properties = with_properties(example, {}, dict(operation.arguments))

    kind = kind_named("spark")
    assert [spark.share_in(properties, each).workers for each in operation.devices] == [2, 2, 1]
    assert kind.topics(example, properties, "VM-1") == ["site/temp-readings"]
    assert kind.topics(example, properties, "VM-2") == []
