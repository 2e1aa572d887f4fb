"""Publish events as a device of a running mesh."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import aiomqtt

from towpath.mesh.state import SiteAccess


async def publish_events(site: SiteAccess, topic: str, events: Iterable[Mapping[str, Any]]) -> None:
    """Publish events to a topic of a site, in order. Returns when all are acknowledged."""
    login = {"username": site.device.user, "password": site.device.password}
    async with aiomqtt.Client(site.mqtt_host, site.mqtt_port, **login) as device:
        for event in events:
            await device.publish(topic, json.dumps(event), qos=1)
