"""Address and login under which gateways of a site are commanded."""

from __future__ import annotations

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.state import SiteAccess
from towpath.mqtt.broker_address import MQTT_3_1_1, BrokerAddress


def gateway_broker(access: SiteAccess) -> BrokerAddress:
    """Return the broker of a site's gateways. Raises `TowpathError` (not allowed) if it has no such login."""
    login = access.device if access.spec.broker.host is not None else access.gateway
    if login is None:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the mesh has no user for gateways yet; run `towpath up` again",
            field="site",
            value=access.spec.name,
        )
    return BrokerAddress(
        access.mqtt_host,
        access.mqtt_port,
        MQTT_3_1_1,
        login.user,
        login.password,
        tls=access.mqtt_is_encrypted,
        ca_file=access.mqtt_authority,
    )
