"""The table of services: each service is complete, and everything that names services follows the table."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from service_trial import CHECKS, Check, home_in, mesh_in
from test_scenario_reading import document, rule

from towpath.contracts.site import FaultSettings, HubSpec, SiteSpec
from towpath.lab.scenarios.reading import parse
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.nats_config import hub_config
from towpath.mesh.provisioning import new_mesh, provision
from towpath.mesh.service_table import processes_of, register, services
from towpath.mesh.settings import spec_of_sites
from towpath.supervisor.app import children

ROOT = Path(__file__).resolve().parents[2]
SITES = ("jfk", "cloud")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", services())
def test_service_when_checked_then_is_complete(name: str, check: Check, tmp_path: Path) -> None:
    check(services()[name], home_in(tmp_path))


def test_service_when_its_name_is_taken_then_is_refused() -> None:
    with pytest.raises(ValueError, match="two services 'monitor'"):
        register(services()["monitor"])


def test_service_when_its_rights_deny_a_subject_then_its_permissions_do() -> None:
    monitor = services()["monitor"]
    denying = replace(monitor, rights=lambda scope: replace(monitor.rights(scope), deny=["secret.>"]))
    permissions = denying.permissions("hub")
    assert permissions["publish"]["deny"] == permissions["subscribe"]["deny"] == ["secret.>"]


def test_service_when_a_mesh_lacks_what_it_comes_after_then_it_does_not_wait_for_it() -> None:
    direct = spec_of_sites("jfk")
    emulated = direct.model_copy(update={"emulate_links": True})
    agent = services()["agent"]
    assert (agent.needs(direct), agent.needs(emulated)) == (("coordinator",), ("coordinator", "links"))


def test_service_when_the_hub_has_several_servers_then_it_waits_for_none_of_them() -> None:
    cluster = spec_of_sites("jfk").model_copy(update={"hub": HubSpec(nodes=3)})
    assert services()["coordinator"].needs(cluster) == ("redis",)
    assert services()["monitor"].needs(cluster) == ()


@pytest.mark.parametrize("name", services())
def test_service_when_it_answers_commands_then_no_site_may_have_its_name(name: str) -> None:
    service = services()[name]
    if f"towpath.v1.command.{name}.>" in service.rights("hub").subscribe:
        with pytest.raises(ValidationError, match="is the name of a service"):
            SiteSpec(name=name)


@pytest.mark.parametrize("name", services())
def test_service_when_checked_for_imports_then_stands_above_libraries_and_the_product_apart(
    name: str,
) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    [product] = [c["source_modules"] for c in contracts if c.get("forbidden_modules") == ["towpath.lab"]]
    module = services()[name].module
    assert module in layers[1].split(" | ")
    assert (module in product) != module.startswith("towpath.lab.")


@pytest.mark.parametrize("name", services())
def test_service_when_documented_then_has_a_row_among_the_processes(name: str) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert re.search(rf"^\| {name}\b", page, re.MULTILINE)


@pytest.mark.parametrize("faults", [True, False])
@pytest.mark.parametrize("emulate_links", [True, False])
def test_processes_when_a_mesh_is_started_then_are_those_that_it_consists_of(
    tmp_path: Path, emulate_links: bool, faults: bool
) -> None:
    home = Home(tmp_path)
    spec = spec_of_sites(",".join(SITES)).model_copy(
        update={"emulate_links": emulate_links, "faults": FaultSettings(enabled=faults)}
    )
    started = {child.name for child in children(provision(home, spec), home)}
    by_agents = {f"{site}-{part}" for site in SITES for part in ("nats", "engine")}
    assert started | by_agents == set(processes_of(spec, SITES))
    assert ("links" in started, "injector" in started) == (emulate_links, faults)


@pytest.mark.parametrize("name", [SUPERVISOR, *processes_of(new_mesh(spec_of_sites("jfk")).spec, SITES)])
def test_process_when_a_mesh_has_it_then_a_scenario_may_break_it(name: str) -> None:
    step = rule(event={"target": "process", "name": name}, actions=[{"fault": "pause"}])
    parse(document(timeline=[step]))


def test_users_when_a_service_does_not_run_in_a_mesh_then_there_is_none_for_it(tmp_path: Path) -> None:
    mesh = provision(Home(tmp_path), spec_of_sites("jfk"))
    config = hub_config(mesh, Home(tmp_path))
    assert "hub.monitor" in config
    assert "hub.links" not in config
    assert "hub.injector" not in config


def test_service_when_unknown_to_this_installation_then_keeps_its_credential(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    mesh_in(home)
    saved = json.loads(home.state.read_text())
    saved["archive"] = {"user": "hub.archive", "password": "secret"}
    home.state.write_text(json.dumps(saved))
    assert mesh_in(home).login("archive").password == "secret"
    assert "hub.archive" not in hub_config(mesh_in(home), home)


def test_state_when_saved_then_has_each_credential_under_the_name_of_its_service(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    mesh_in(home)
    saved = json.loads(home.state.read_text())
    hub = {service.name for service in services().values() if not service.one_per_site}
    assert hub <= saved.keys()
    assert {"agent", "engine"} <= saved["sites"]["jfk"].keys()
