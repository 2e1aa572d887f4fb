"""The processes of a mesh are named in one place, which names those that are started."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_scenario_reading import document, rule

from towpath.contracts.site import FaultSettings
from towpath.lab.scenarios.reading import parse
from towpath.mesh.home import Home
from towpath.mesh.names import SITE_PARTS, SUPERVISOR, processes_of
from towpath.mesh.settings import spec_of_sites
from towpath.mesh.state import MeshState
from towpath.supervisor.app import children

SITES = ("jfk", "cloud")


@pytest.mark.parametrize("faults", [True, False])
@pytest.mark.parametrize("emulate_links", [True, False])
def test_processes_when_a_mesh_is_started_then_are_those_that_it_consists_of(
    tmp_path: Path, emulate_links: bool, faults: bool
) -> None:
    home = Home(tmp_path)
    spec = spec_of_sites(",".join(SITES)).model_copy(
        update={"emulate_links": emulate_links, "faults": FaultSettings(enabled=faults)}
    )
    started = {child.name for child in children(MeshState.create_or_extend(home, spec), home)}
    # An agent starts the other parts of its site.
    by_agents = {f"{site}-{part}" for site in SITES for part in SITE_PARTS if part != "agent"}
    assert started | by_agents == set(processes_of(SITES, emulate_links=emulate_links, faults=faults))


@pytest.mark.parametrize("name", [SUPERVISOR, *processes_of(SITES, emulate_links=True, faults=True)])
def test_process_when_a_mesh_has_it_then_a_scenario_may_break_it(name: str) -> None:
    step = rule(event={"target": "process", "name": name}, actions=[{"fault": "pause"}])
    parse(document(timeline=[step]))
