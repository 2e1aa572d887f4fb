"""Settings of a gateway, from a YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from towpath.contracts.gateway import GatewayBroker
from towpath.gateways.control import body_as, check_name
from towpath.gateways.package_shelf import PackageLimits
from towpath.gateways.refusal import Refusal
from towpath.mqtt.broker_address import BrokerAddress


class BrokerSettings(GatewayBroker, frozen=True):
    """Address of a broker, and how to log in."""

    password_file: str | None = None
    """File whose first line is the password."""
    certificate_file: str | None = None
    key_file: str | None = None

    def address(self) -> BrokerAddress:
        """Return the address with the password. Raises `OSError` if its file cannot be read."""
        password = None
        if self.password_file is not None:
            password = (Path(self.password_file).read_text(encoding="utf-8").splitlines() or [""])[0]
        return BrokerAddress(
            host=self.host,
            port=self.port,
            version=self.version,
            user=self.user,
            password=password,
            tls=self.tls,
            ca_file=self.ca_file,
            certificate_file=self.certificate_file,
            key_file=self.key_file,
        )


class StoreSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The log of results on the gateway's disk."""

    budget_mb: Annotated[float, msgspec.Meta(gt=0)] = 64.0
    """Beyond it the oldest results are dropped and counted."""
    order: Literal["in-order", "live-first"] = "in-order"
    """After an outage, `live-first` shares the connection between new results and the backlog."""


class GatewaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one gateway."""

    device: str
    """Name of the gateway, unique in its account."""
    directory: str
    """Where it keeps packages, requests and results."""
    site: BrokerSettings
    """Broker of the site: commands come from it, results go to it."""
    account: str = "towpath"
    group: str = ""
    """Name by which it chooses among several sites: gateways of one group choose the same. Empty: its own."""
    local: BrokerSettings | None = None
    """Broker of the gateway's own sensors. None: the site's broker."""
    packages: PackageLimits = PackageLimits()
    store: StoreSettings = StoreSettings()


def read_settings(path: Path) -> GatewaySettings:
    """Return the settings in a file. Raises `Refusal` for wrong ones, `OSError` if it cannot be read."""
    import yaml  # Here, as simulated gateways read no file.

    try:
        content = yaml.safe_load(path.read_bytes())
    except yaml.YAMLError as error:
        raise Refusal.bad(f"not readable as YAML: {error}", field=str(path)) from error
    return settings_of(content)


def settings_of(content: Any) -> GatewaySettings:
    """Return settings from plain values. Raises `Refusal`."""
    settings = body_as(content, GatewaySettings)
    check_name("device", settings.device)
    check_name("account", settings.account)
    if settings.group:
        check_name("group", settings.group)
    return settings
