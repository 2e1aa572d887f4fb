"""Settings of a mesh: the documented example is complete, and what is wrong is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from towpath.contracts.errors import TowpathError
from towpath.contracts.site import ContainerSpec, Durability, EngineSpec, MeshSpec, Retention, SiteSpec
from towpath.mesh.settings import load_spec, parse_spec, spec_of_sites

EXAMPLE = Path(__file__).parents[2] / "infra" / "towpath.example.toml"


def test_example_sets_every_setting_when_it_is_read() -> None:
    spec = load_spec(EXAMPLE)
    first = spec.sites[0]
    models: list[tuple[BaseModel, type[BaseModel]]] = [
        (spec, MeshSpec),
        (first, SiteSpec),
        (first.retention, Retention),
        (first.engine, EngineSpec),
        (first.container, ContainerSpec),
    ]
    for value, model in models:
        # TOML knows no null: what is null by default stands there as a comment.
        shown = {name for name, field in model.model_fields.items() if field.default is not None}
        assert shown <= value.model_fields_set


def test_example_shows_the_defaults_when_its_first_site_is_compared() -> None:
    assert load_spec(EXAMPLE).sites[0] == SiteSpec(name="jfk")


def test_sites_have_default_settings_when_only_named() -> None:
    assert spec_of_sites("jfk, cloud") == MeshSpec(sites=[SiteSpec(name="jfk"), SiteSpec(name="cloud")])


def test_settings_are_read_when_the_file_gives_them(tmp_path: Path) -> None:
    path = tmp_path / "towpath.toml"
    path.write_text(
        'hub_port = 4222\n[[sites]]\nname = "jfk"\ndurability = "power-safe"\nretention.max_age_s = 60\n'
    )
    spec = load_spec(path)
    assert spec.hub_port == 4222
    assert spec.sites[0].durability is Durability.POWER_SAFE
    assert spec.sites[0].retention == Retention(max_age_s=60)


def site(**settings: Any) -> dict[str, Any]:
    return {"sites": [{"name": "jfk", **settings}]}


@pytest.mark.parametrize(
    ("content", "field", "value", "allowed"),
    [
        (site(mqtt_port=70000), "sites.0.mqtt_port", 70000, "less than or equal to 65535"),
        (site(durability="maybe"), "sites.0.durability", "maybe", "'fast' or 'power-safe'"),
        (site(durabilty="fast"), "sites.0.durabilty", "fast", sorted(SiteSpec.model_fields)),
        (site(retention={"days": 3}), "sites.0.retention.days", 3, ["max_age_s", "max_bytes", "total_bytes"]),
        (site(engine={"memory": "lots"}), "sites.0.engine.memory", "lots", "^[0-9]+[mg]$"),
        ({"sites": [{"name": "JFK"}]}, "sites.0.name", "JFK", "^[a-z][a-z0-9-]{0,47}$"),
        ({**site(), "hub": {"nodes": 2}}, "hub.nodes", 2, "1 or 3"),
        ({**site(), "hubport": 1}, "hubport", 1, sorted(MeshSpec.model_fields)),
    ],
)
def test_setting_is_refused_with_what_is_allowed_when_it_is_wrong(
    content: dict[str, Any], field: str, value: object, allowed: object
) -> None:
    with pytest.raises(TowpathError) as refused:
        parse_spec(content)
    detail = refused.value.detail
    assert (detail.field, detail.value, detail.allowed) == (field, value, allowed)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({}, "this setting is required; field sites"),
        (
            {"sites": [{"name": "hub"}]},
            "'hub' is the name of a service, not of a site; field sites.0.name = 'hub'",
        ),
    ],
)
def test_setting_is_refused_with_its_reason_once_when_no_list_of_values_helps(
    content: dict[str, Any], told: str
) -> None:
    with pytest.raises(TowpathError) as refused:
        parse_spec(content)
    assert refused.value.detail.one_line() == told


@pytest.mark.parametrize("names", ["", "jfk,,lga", "jfk,L GA", "jfk,jfk", "coordinator"])
def test_list_of_sites_is_refused_when_a_name_is_wrong(names: str) -> None:
    with pytest.raises(TowpathError):
        spec_of_sites(names)


@pytest.mark.parametrize("text", [None, "sites = ["])
def test_file_is_refused_when_it_cannot_be_read(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "towpath.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TowpathError) as refused:
        load_spec(path)
    assert (refused.value.detail.field, refused.value.detail.value) == ("config", str(path))


@pytest.mark.parametrize(("heap", "enough"), [("320m", False), ("479m", False), ("480m", True), ("1g", True)])
def test_engine_when_spark_would_not_start_on_its_heap_then_is_refused(heap: str, enough: bool) -> None:
    if enough:
        assert EngineSpec(memory=heap, executor_memory=heap).memory == heap
    else:
        with pytest.raises(ValueError, match="480m"):
            EngineSpec(memory=heap)
