"""Find the devices that an operation is placed on: by name, by pattern and by labels."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from towpath.contracts.device_catalogue import Device
from towpath.contracts.errors import closest
from towpath.contracts.plan import Placement
from towpath.plans.findings import Findings

MOST_NAMED = 20
"""Devices that an error names, at most: a catalogue may have thousands."""

_WILD = frozenset("*?[")


def placed(placement: Placement, devices: Iterable[Device], place: str, findings: Findings) -> list[Device]:
    """Return the devices in the catalogue's order. `place` is the path of the placement in the plan.

    Unknown devices and patterns or labels that fit none are recorded as errors.
    """
    known = {device.id: device for device in devices}
    fitting = _by_name(placement.devices, known, place, findings) if placement.devices else set(known)
    for label, value in placement.labels.items():
        having = {name for name in known if known[name].labels.get(label) == value}
        if not having:
            labels = sorted({f"{label}: {v}" for d in known.values() for label, v in d.labels.items()})
            findings.refuse(f"{place}.labels.{label}", "no device has it", f"{label}: {value}", labels)
        fitting &= having
    found = [device for name, device in known.items() if name in fitting]
    if not found and not any(error.field and error.field.startswith(place) for error in findings.errors):
        findings.refuse(place, "no device has both such a name and all labels", None, "at least one device")
    return found


def _by_name(names: list[str], known: dict[str, Device], place: str, findings: Findings) -> set[str]:
    fitting: set[str] = set()
    for position, name in enumerate(names):
        matching = {device for device in known if device == name or fnmatchcase(device, name)}
        if not matching:
            what = "no device has such a name" if _WILD & set(name) else "unknown device"
            alike = _alike(name, known)
            what += f"; did you mean {alike!r}?" if alike else ""
            allowed = sorted(known) if len(known) <= MOST_NAMED else f"one of {len(known)} devices"
            findings.refuse(f"{place}.devices[{position}]", what, name, allowed)
        fitting |= matching
    return fitting


def _alike(name: str, known: Iterable[str]) -> str | None:
    plain = {device.casefold(): device for device in known}
    return plain.get(closest(name.casefold(), plain) or "")
