"""Catalogue of devices and packages: what a deployment plan is checked against."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import StringConstraints

from towpath.contracts.message import Model
from towpath.contracts.plan import DeviceName, Package, Place, Resources, Text


class Device(Model):
    """Gateway, server or virtual machine that runs applications."""

    id: DeviceName
    address: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.:-]+$")] | None = None
    """Address at which other devices reach it. Needed where an operation's devices form one cluster."""
    place: Place = Place()
    type: Text | None = None
    model: Text | None = None
    resources: Resources = Resources()
    """Those it has. One that is left out is not checked."""
    software: list[Text] = []
    """Software with its version: `Java 17`."""
    labels: dict[Text, str] = {}
    """Free words that plans select devices by."""


class DeviceCatalogue(Model):
    """Devices that plans may use, and the packages that they install."""

    devices: list[Device]
    packages: list[Package] = []


EXAMPLE_CATALOGUE: dict[str, Any] = {
    "devices": [
        {
            "id": "pi-1",
            "place": {"site": "jesmond", "latitude": 54.98, "longitude": -1.6},
            "type": "gateway",
            "model": "Raspberry Pi 3B+",
            "resources": {"cpus": 4, "clock": 1.4, "memory": 1_000_000_000},
            "software": ["Raspbian 12", "Java 17"],
            "labels": {"district": "jesmond"},
        }
    ],
    "packages": [{"name": "average.dp", "version": "1.2.0", "url": "https://packages.example/average.dp"}],
}
