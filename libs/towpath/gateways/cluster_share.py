"""Split a cluster's workers over its devices. Pure.

All devices of a cluster get the same properties, so each computes its own share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ALONE = "127.0.0.1"
"""Address of a device whose cluster has no other."""


@dataclass(frozen=True)
class ClusterShare:
    """Part of a cluster that is on one device."""

    address: str
    """Address at which the cluster's other devices reach this one."""
    master: str
    """Address of the device with the master."""
    workers: int
    """Number of workers on this device."""
    has_job: bool
    """True for the first device while the cluster has workers: it has master and job, too."""


def share_of(device: str, devices: str, workers: int) -> ClusterShare:
    """Return a device's share of `workers`. The first devices get one more where they do not divide.

    `devices` is the text that `devices_text` makes. A device that it does not name has nothing, unless the
    text is empty: then the device is a cluster of its own. Raises `ValueError` if the text is none.
    """
    members = members_of(devices) or [(device, ALONE)]
    names = [name for name, _ in members]
    if device not in names:
        return ClusterShare(ALONE, members[0][1], 0, has_job=False)
    place = names.index(device)
    each, more = divmod(workers, len(members))
    return ClusterShare(
        address=members[place][1],
        master=members[0][1],
        workers=each + (place < more),
        has_job=place == 0 and workers > 0,
    )


def members_of(devices: str) -> list[tuple[str, str]]:
    """Return names and addresses in a text such as `vm-1=10.0.0.1, vm-2=10.0.0.2`. Raises `ValueError`."""
    members: list[tuple[str, str]] = []
    for part in filter(None, (part.strip() for part in devices.split(","))):
        name, _, address = part.partition("=")
        if not name or not address or any(each.isspace() for each in part):
            raise ValueError(f"{part!r} is not a device with its address")
        if any(name == known for known, _ in members):
            raise ValueError(f"{name} is named twice")
        members.append((name, address))
    return members


def devices_text(members: Iterable[tuple[str, str]]) -> str:
    """Return the text for names and addresses."""
    return ", ".join(f"{name}={address}" for name, address in members)
