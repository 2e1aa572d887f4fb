"""Commands to the agent of a site about the devices that feed its broker: gateways and the like.

The agent passes requests on in the form of `towpath.contracts.gateway`, and the device's answers back.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from towpath.contracts.message import ROOT, Command, Event, Model, SiteName
from towpath.contracts.plan import DeviceName

_SITE = f"{ROOT}.command.{{site}}"


class DeviceAnswer(Model):
    """Answer of a device."""

    code: int
    """See `towpath.contracts.gateway.Code`. 202 means that the device still works on it: ask again."""
    body: Any = None

    def reason(self) -> str:
        """Return what the device says of a refusal, on one line."""
        errors = self.body.get("errors") if isinstance(self.body, dict) else None
        messages = [str(error.get("message")) for error in errors or () if isinstance(error, dict)]
        return "; ".join(messages) or "no reason given"


class AskDevice(Command[DeviceAnswer]):
    """Send one request to a device, and return its answer.

    Fails as unreachable if the device is offline or gives no answer in time. It may then still do what it was
    asked. The same `request` may be sent again: the device does nothing twice.
    """

    subject = f"{_SITE}.ask-device"
    answer = DeviceAnswer
    example = {
        "id": "v1",
        "site": "jfk",
        "device": "pi-1",
        "application": "CONF-V1",
        "method": "PUT",
        "resource": "configurations/average",
        "body": {"properties": {"publish.rate": 10}},
        "request": "r1",
        "timeout_s": 30.0,
    }

    site: SiteName
    """The site whose broker the device is connected to."""
    device: DeviceName
    application: str
    """Part of the device that takes the request, such as `DEPLOY-V2`."""
    method: str
    """`GET`, `PUT` or `EXEC`."""
    resource: str
    body: Any = None
    request: str
    """Identifier by which the device recognises a repetition."""
    timeout_s: float = Field(gt=0, le=3600)


class DevicesSeen(Model):
    """Devices that have been connected to the broker of a site."""

    online: dict[DeviceName, bool]


class ListDevices(Command[DevicesSeen]):
    """Return which devices of a site are online."""

    subject = f"{_SITE}.list-devices"
    answer = DevicesSeen
    example = {"id": "v2", "site": "jfk"}

    site: SiteName


class DeviceChanged(Event):
    """A device came or went. Told while someone asks for the devices of this site now and then."""

    subject = f"{ROOT}.event.site.{{site}}.device"
    example = {"at": "2026-01-01T00:00:00Z", "site": "jfk", "device": "pi-1", "online": True}

    site: SiteName
    device: DeviceName
    online: bool


DEVICE_COMMANDS: tuple[type[Command[Any]], ...] = (AskDevice, ListDevices)
