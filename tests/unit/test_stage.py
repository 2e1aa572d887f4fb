"""A stage knows which processes its mesh must have, and whether a job has one owner."""

from pathlib import Path
from unittest.mock import create_autospec

import pytest

from towpath.bus import Bus
from towpath.contracts.commands import JobView
from towpath.contracts.job import JobState, JobStatus, ResolvedOutput
from towpath.contracts.scenario_load import StandardJob
from towpath.contracts.site import FaultSettings, MeshSpec, SiteSpec, SiteState, SiteStatus
from towpath.lab.harness.stage import Stage, ownership_faults
from towpath.lab.harness.workload import spec_of
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


def view(epoch: int = 3, operation: str | None = None) -> JobView:
    spec = spec_of(StandardJob(name="j-1", workload="cleaned", site="a", output_site="out"))
    output = ResolvedOutput(site="out", stream="OUT_j-1", topic="j", rejected_topic="j/rejected")
    return JobView(
        spec=spec, site="a", epoch=epoch, state=None, operation=operation, status=None, output=output
    )


def site(name: str, state: JobState | None = None, epoch: int = 3) -> SiteStatus:
    jobs = [JobStatus(job="j-1", epoch=epoch, state=state)] if state else []
    return SiteStatus(site=name, state=SiteState.UP, nats_url="", mqtt_host="", mqtt_port=0, jobs=jobs)


def test_ownership_when_registry_site_and_output_agree_then_has_no_fault() -> None:
    assert ownership_faults(view(), [site("a", JobState.RUNNING), site("b"), site("out")], [3]) == []


def test_ownership_when_a_site_is_the_standby_then_has_one_owner() -> None:
    sites = [site("a", JobState.RUNNING), site("b", JobState.STANDBY)]

    assert ownership_faults(view(), sites, [3]) == []


@pytest.mark.parametrize(
    ("owned", "sites", "accepted", "fault"),
    [
        (view(), [site("a", JobState.RUNNING), site("b")], [2], "accepts epochs"),
        (view(), [site("a", JobState.RUNNING), site("b")], [2, 3], "accepts epochs"),
        (view(), [site("a", JobState.RUNNING), site("b", JobState.HELD)], [3], "b has the job, too"),
        (view(), [site("a", JobState.RUNNING, epoch=2), site("b")], [3], "running at epoch 2"),
        (view(), [site("a", JobState.HELD), site("b")], [3], "held at epoch 3"),
        (view(), [site("a"), site("b")], [3], "unknown"),
        (view(operation="m1"), [site("a", JobState.RUNNING)], [3], "operation m1 is under way"),
    ],
    ids=["fenced", "two-epochs", "held-elsewhere", "old-epoch", "held", "missing", "under-way"],
)
def test_ownership_when_one_of_them_differs_then_says_what(
    owned: JobView, sites: list[SiteStatus], accepted: list[int], fault: str
) -> None:
    (found,) = ownership_faults(owned, sites, accepted)
    assert fault in found
