"""The broker from which `towpath check --broker` collects, and its address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from towpath.checker import collector
from towpath.cli.check_broker import PASSWORD, ForeignBroker, broker_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mqtt.broker_address import BrokerAddress
from towpath.mqtt.connection import MqttConnection

NONE: dict[str, Any] = {"broker": None, "username": None, "tls": False, "ca_file": None}
BROKER = {**NONE, "broker": "broker.example:8883"}


def refused(options: dict[str, Any]) -> str | None:
    with pytest.raises(TowpathError) as raised:
        broker_of(options, {})
    assert raised.value.detail.code is ErrorCode.INVALID
    assert raised.value.detail.allowed
    return raised.value.detail.field


def test_broker_when_only_an_address_is_given_then_no_one_logs_in() -> None:
    assert broker_of(NONE, {PASSWORD: "secret"}) is None
    assert broker_of(BROKER, {PASSWORD: "secret"}) == ForeignBroker("broker.example", 8883)


def test_broker_when_a_user_is_named_then_the_password_is_that_of_the_environment() -> None:
    named = {**BROKER, "username": "ann"}
    assert broker_of(named, {PASSWORD: "secret"}) == ForeignBroker("broker.example", 8883, "ann", "secret")
    assert broker_of(named, {}) == ForeignBroker("broker.example", 8883, "ann", None)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"broker": "broker.example"}, "broker"),
        ({"broker": ":1883"}, "broker"),
        ({"broker": "broker.example:99999"}, "broker"),
        ({"username": "ann"}, "username"),
        ({"tls": True}, "tls"),
        ({"ca_file": Path("ca.pem")}, "ca_file"),
        ({"broker": "broker.example:1883", "ca_file": Path("ca.pem")}, "ca_file"),
    ],
)
def test_broker_when_options_do_not_fit_together_then_the_field_is_named(
    options: dict[str, Any], field: str
) -> None:
    assert refused({**NONE, **options}) == field


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_collector_when_there_are_no_certificates_then_the_file_is_named(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(TowpathError) as raised:
        ForeignBroker("broker.example", 8883, tls=True, ca_file=file).collector("out")
    assert (raised.value.detail.field, raised.value.detail.value) == ("ca_file", str(file))


async def test_collector_when_a_login_and_tls_are_asked_for_then_it_connects_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[BrokerAddress] = []

    def refuse(address: BrokerAddress, *session: Any, **options: Any) -> MqttConnection:
        given.append(address)
        raise ConnectionError("not there")

    monkeypatch.setattr(collector, "MqttConnection", refuse)
    made = ForeignBroker("broker.example", 8883, "ann", "secret", tls=True).collector("out")
    made._ready_within_s = 0.01
    with pytest.raises(TowpathError, match="not there"):
        await made.__aenter__()
    assert (given[0].user, given[0].password, given[0].tls) == ("ann", "secret", True)
