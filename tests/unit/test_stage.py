"""A stage knows which processes its mesh must have."""

from pathlib import Path
from unittest.mock import create_autospec

import pytest

from towpath.bus import Bus
from towpath.contracts.site import FaultSettings, MeshSpec, SiteSpec
from towpath.lab.harness.stage import Stage
from towpath.mesh.home import Home
from towpath.mesh.provisioning import new_mesh


@pytest.mark.parametrize("faults", [True, False])
def test_stage_when_rules_may_be_loaded_or_not_then_it_waits_for_an_injector_or_does_not(
    tmp_path: Path, faults: bool
) -> None:
    mesh = new_mesh(MeshSpec(sites=[SiteSpec(name="jfk")], faults=FaultSettings(enabled=faults)))
    bus = create_autospec(Bus, instance=True)

    missing = Stage(Home(tmp_path), mesh, bus, bus).not_running()

    assert {"coordinator", "jfk-agent"} < set(missing)
    assert ("injector" in missing) is faults
