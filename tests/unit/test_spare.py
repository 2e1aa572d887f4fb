"""Machines that stand by for the coordinator: what they are given, and what they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.joining import SpareBundle
from towpath.contracts.site import BrokerSpec, Capacity, HubSpec, MeshSpec, SiteSpec
from towpath.coordinator.settings import CoordinatorSettings
from towpath.mesh.home import Home
from towpath.mesh.provisioning import new_mesh
from towpath.mesh.spare import spare_bundle, spare_mesh
from towpath.mesh.state import MeshState
from towpath.supervisor.app import children

HUB = HubSpec(urls=["nats://127.0.0.1:4222"], leaf_urls=["nats-leaf://127.0.0.1:7422"])


@pytest.fixture
def mesh() -> MeshState:
    sites = [
        SiteSpec(name="jfk", capacity=Capacity(cores=4)),
        SiteSpec(name="lga", broker=BrokerSpec(user="plant")),
    ]
    return new_mesh(MeshSpec(sites=sites, hub=HUB))


def joined(mesh: MeshState) -> MeshState:
    bundle = spare_bundle(mesh, 4, None)
    return spare_mesh(SpareBundle.from_json(bundle.model_dump_json()), None)


def test_bundle_when_it_is_made_then_has_the_keys_of_coordinator_and_operator_and_no_others(
    mesh: MeshState,
) -> None:
    bundle = spare_bundle(mesh, 4, None)

    text = bundle.model_dump_json()
    allowed = {mesh.operator, mesh.login("coordinator")}
    logins = {mesh.redis_coordinator, mesh.operator, *mesh.logins.values()}
    for access in mesh.sites.values():
        logins |= {access.leaf, access.redis, access.device, *access.logins.values()}
    assert {login for login in logins if login.password in text} == allowed
    assert "plant" not in text
    assert mesh.api_token not in text


def test_bundle_when_it_comes_again_then_replaces_the_settings_and_redis_stays(mesh: MeshState) -> None:
    own = joined(mesh)
    moved = mesh.spec.hub.model_copy(update={"urls": ["nats://127.0.0.1:5222"]})
    later = mesh.model_copy(update={"spec": mesh.spec.model_copy(update={"hub": moved})})

    again = spare_mesh(spare_bundle(later, 4, None), None, own)

    assert again.hub_url == "nats://127.0.0.1:5222"
    assert (again.spec.redis_port, again.redis_coordinator) == (own.spec.redis_port, own.redis_coordinator)


def test_bundle_when_towpath_runs_the_hub_then_is_refused() -> None:
    with pytest.raises(TowpathError) as refused:
        spare_bundle(new_mesh(MeshSpec(sites=[SiteSpec(name="jfk")])), 4, None)

    assert (refused.value.detail.code, refused.value.detail.field) == (ErrorCode.NOT_ALLOWED, "hub.urls")


def test_machine_when_it_stands_by_then_runs_its_redis_and_a_coordinator_that_waits(
    mesh: MeshState, tmp_path: Path
) -> None:
    home = Home(tmp_path).create()
    own = joined(mesh)
    own.save(home)

    started = children(own, home)
    settings = CoordinatorSettings.from_home(tmp_path, 4)

    assert [child.name for child in started] == ["redis", "coordinator-4"]
    assert [child.after for child in started] == [(), ("redis",)]
    assert settings.coordinators > 1
    assert (settings.redis_host, settings.redis_port) == ("127.0.0.1", own.spec.redis_port)
    assert settings.redis_password != mesh.redis_coordinator.password
    assert (settings.hub_url, settings.hub_password) == (HUB.urls[0], mesh.login("coordinator").password)
    assert settings.capacities["jfk"].cores == 4
    assert not own.has_services
    assert own.sites_here == []
