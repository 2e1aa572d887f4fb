"""Without fault rules nothing in a mesh looks for any, and no process is told where they would be."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.agent.settings import AgentSettings
from towpath.contracts.site import FaultSettings, MeshSpec, SiteSpec
from towpath.hooks import extension
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.state import MeshState
from towpath.supervisor.app import children

VARIABLES = {"TOWPATH_HOOKS", "TOWPATH_FAULTS", "TOWPATH_PROCESS"}
ON = FaultSettings(enabled=True)


def spec(**changes: FaultSettings) -> MeshSpec:
    return MeshSpec(sites=[SiteSpec(name="jfk")], **changes)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def told(home: Home, state: MeshState) -> dict[str, set[str]]:
    """Process → those of the variables that its environment has."""
    started = {child.name: set(child.environment) & VARIABLES for child in children(state, home)}
    engine = AgentSettings.of(home.root, "jfk").engine_environment("jfk-engine")
    return {**started, "jfk-engine": set(engine) & VARIABLES}


def test_mesh_when_nothing_is_said_then_has_no_injector_and_no_process_that_is_told_of_rules(
    home: Home,
) -> None:
    found = told(home, provision(home, spec()))
    assert "injector" not in found
    assert set().union(*found.values()) == set()


def test_mesh_when_faults_are_on_then_all_its_processes_are_told_where_rules_are(home: Home) -> None:
    found = told(home, provision(home, spec(faults=ON)))
    servers = {name for name, variables in found.items() if not variables}
    assert servers == {"hub", "redis"}
    assert found["injector"] == found["jfk-engine"] == VARIABLES


def test_process_when_faults_are_switched_then_is_another_one(home: Home) -> None:
    versions = [
        {child.name: child.version for child in children(provision(home, each), home)}
        for each in (spec(), spec(faults=ON))
    ]
    assert versions[0]["coordinator"] != versions[1]["coordinator"]
    assert versions[0]["jfk-agent"] != versions[1]["jfk-agent"]


def test_setting_when_a_mesh_is_started_again_without_a_word_then_stays(home: Home) -> None:
    provision(home, spec(faults=ON))
    assert provision(home, spec()).spec.faults.enabled


async def test_process_when_no_extension_is_named_then_nothing_looks_for_rules(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(extension.HOOKS, raising=False)
    monkeypatch.setattr(extension, "import_module", lambda name: pytest.fail(f"{name} is imported"))
    extension.watch()
    assert extension.spark_settings() == {}
    async with extension.at_site(home.root, "jfk", None):
        pass
