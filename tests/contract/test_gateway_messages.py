"""One golden message for each form of a gateway's messages, on the topic where it belongs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from running.places import EXAMPLES, ROOT
from towpath.contracts import data_plane
from towpath.contracts.gateway import (
    CONTROL_PREFIX,
    Configuration,
    Delivery,
    InstallPackage,
    Named,
    Notification,
    Presence,
    Reply,
)
from towpath.gateway.settings import read_settings
from towpath.gateways import control
from towpath.gateways.completeness import Completeness
from towpath.gateways.manifest import read_manifest

GOLDEN = {path.stem: path for path in (ROOT / "contracts/examples/gateway").glob("*.json")}

BODIES: dict[str, type[Any]] = {
    "request-update": Configuration,
    "request-update-xml": Configuration,
    "request-install": InstallPackage,
    "request-uninstall": Named,
    "request-delivery": Delivery,
}


def golden(name: str) -> tuple[str, bytes]:
    content = json.loads(GOLDEN[name].read_text())
    return content["topic"], json.dumps(content["payload"]).encode()


@pytest.mark.parametrize("name", sorted(name for name in GOLDEN if name.startswith("request-")))
def test_request_when_it_is_the_golden_one_then_is_read(name: str) -> None:
    topic, payload = golden(name)
    address = control.parse_address(topic)
    request = control.decode_request(address, payload)
    assert address.topic == topic
    if name in BODIES:
        control.body_as(request.body, BODIES[name])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("reply-ok", Reply),
        ("reply-accepted", Reply),
        ("reply-bad-request", Reply),
        ("notification", Notification),
        ("presence-birth", Presence),
        ("presence-death", Presence),
    ],
)
def test_message_when_it_is_the_golden_one_then_is_written_the_same(name: str, kind: type[Any]) -> None:
    topic, payload = golden(name)
    message = control.decode(payload, kind)
    assert json.loads(control.encode(message)) == json.loads(payload)
    of_kind = {Reply: control.is_reply, Notification: control.is_notification, Presence: control.is_presence}
    assert of_kind[kind](topic)


def test_result_when_it_is_the_golden_one_then_counts_once() -> None:
    _, payload = golden("result")
    seen = Completeness()
    assert [seen.take(json.loads(payload)) for _ in range(2)] == [True, False]
    assert seen.gaps() == {"pi01": [(1, 16)]}


def test_control_subjects_when_servers_and_gateways_name_them_then_are_the_same() -> None:
    assert f"{CONTROL_PREFIX}.>" == data_plane.CONTROL_SUBJECTS
    assert data_plane.CONTROL_STORE_SUBJECTS == "$MQTT.msgs.$EDC.>"


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("gateways/*/manifest.json")), ids=lambda path: path.parent.name
)
def test_example_package_when_read_then_is_right(path: Path) -> None:
    assert read_manifest(path.read_bytes()).name == path.parent.name


def test_example_settings_when_read_then_are_right() -> None:
    assert read_settings(EXAMPLES / "gateways/gateway.yaml").device == "pi01"
