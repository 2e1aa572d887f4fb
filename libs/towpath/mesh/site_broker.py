"""Addresses and logins of a site's broker for devices."""

from __future__ import annotations

from towpath.contracts.credential import Credential
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.state import SiteAccess
from towpath.mqtt.broker_address import MQTT_3_1_1, BrokerAddress


def site_broker(access: SiteAccess, login: Credential, version: str = MQTT_3_1_1) -> BrokerAddress:
    """Return the broker of a site for the user `login`. Raises `TowpathError` (not allowed) elsewhere."""
    return BrokerAddress(
        access.mqtt_host.strip("[]"),
        access.mqtt_port,
        version,
        login.user,
        login.password,
        tls=access.mqtt_is_encrypted,
        ca_file=access.mqtt_authority,
    )


def gateway_broker(access: SiteAccess) -> BrokerAddress:
    """Return the broker for commands to gateways. Raises `TowpathError` (not allowed) without such a user."""
    login = access.device if access.spec.broker.host is not None else access.gateway
    if login is None:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the mesh has no user for gateways yet; run `towpath up` again",
            field="site",
            value=access.spec.name,
        )
    return site_broker(access, login)
