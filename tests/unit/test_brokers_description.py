"""Settings that may describe a site's broker, and those that its mesh keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from towpath.contracts.errors import TowpathError
from towpath.contracts.site import BrokerKind, BrokerSpec, MeshSpec, SiteSpec
from towpath.mesh.broker_description import check_broker
from towpath.mesh.provisioning import new_mesh
from towpath.mesh.state import SiteAccess


def mesh(**broker: Any) -> MeshSpec:
    return MeshSpec(sites=[SiteSpec(name="jfk", broker=BrokerSpec(kind=BrokerKind.MOSQUITTO, **broker))])


def jfk(spec: MeshSpec) -> SiteAccess:
    return new_mesh(spec).sites["jfk"]


@pytest.mark.parametrize(
    "filters",
    [["site/#"], ["site/a", "site/b/+"], ["site/+", "site/+/x"], ["site/a/#", "site/b/#"], ["+/a", "site/b"]],
)
def test_filters_when_no_topic_matches_two_then_are_taken(filters: list[str]) -> None:
    check_broker(BrokerSpec(subscribe=filters))


@pytest.mark.parametrize(
    "filters",
    [
        [],
        [""],
        ["site/#/a"],
        ["site/a+"],
        ["site/a#"],
        ["site/#", "site/a"],
        ["site/a/#", "site/a"],
        ["site/+/x", "site/a/+"],
        ["#", "site/a"],
        ["site/a", "site/a"],
    ],
)
def test_filters_when_malformed_or_matching_one_topic_then_are_refused(filters: list[str]) -> None:
    with pytest.raises(TowpathError) as refused:
        check_broker(BrokerSpec(subscribe=filters))
    assert refused.value.detail.field == "broker.subscribe"
    assert refused.value.detail.allowed


@pytest.mark.parametrize("field", ["password_file", "ca_file", "certificate_file", "key_file"])
@pytest.mark.parametrize("path", ["relative", "/nowhere/at/all"])
def test_file_when_it_is_not_there_or_depends_on_who_looks_then_is_refused(field: str, path: str) -> None:
    with pytest.raises(TowpathError) as refused:
        new_mesh(mesh(host="broker", **{field: path}))
    assert (refused.value.detail.field, refused.value.detail.value) == (f"broker.{field}", path)


def test_own_mosquitto_when_the_mesh_is_made_then_has_a_port_beside_the_servers() -> None:
    access = jfk(mesh())
    assert len({access.mqtt_port, access.spec.mqtt_port, access.spec.nats_port}) == 3
    assert (access.mqtt_host, access.device.user) == ("127.0.0.1", "jfk.device")
    assert access.bridge is not None


def test_own_mosquitto_when_it_asks_for_the_port_of_another_listener_then_is_refused() -> None:
    spec = mesh(port=4222)
    with pytest.raises(TowpathError) as refused:
        new_mesh(spec.model_copy(update={"hub_port": 4222}))
    assert refused.value.detail.field == "sites.0.broker.port"


def test_foreign_broker_when_devices_look_for_it_then_they_find_its_address_and_user(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("pass word\nnot this\n")
    plain = jfk(mesh(host="broker", user="plant", password_file=str(secret)))
    assert (plain.mqtt_host, plain.mqtt_port) == ("broker", 1883)
    assert (plain.device.user, plain.device.password) == ("plant", "pass word")
    assert jfk(mesh(host="broker", tls=True)).mqtt_port == 8883
    assert jfk(mesh(host="broker", port=18830)).mqtt_port == 18830
