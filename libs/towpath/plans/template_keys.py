"""Keys and words of the thesis's template, with the ways in which it misspells them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from towpath.contracts.errors import closest
from towpath.contracts.plan import Scalar, TaskKind
from towpath.plans.findings import Findings, Path

COMPUTATION = ("operation", "placement")
OPERATION = ("OP-ID", "source", "node", "task", "target")
NODE = ("metadata", "software_stack", "resources")
METADATA = ("ID", "type", "model", "location")
LOCATION = ("longitude", "latitude")
SOFTWARE = ("OS", "libraries")
RESOURCES = ("CPU", "memory")
TASK = ("type", "binary", "arguments")
PLACEMENT = ("OP-ID", "P-ID")

OTHER_KEYS = {"datain": "source"}
"""Key as the template has it elsewhere → key."""

ARGUMENTS = {
    "publish.gos": "publish.qos",
    "suscribe.topic": "subscribe.topic",
    "rdd.bachsize": "rdd.batchsize",
}
"""Misprinted argument → argument. Arguments belong to the user's code, so no others are corrected."""

WORDS = {"Raspbean": "Raspbian"}
"""Misprinted software → software."""

TASKS = {
    "deploy": TaskKind.INSTALL,
    "install": TaskKind.INSTALL,
    "installation": TaskKind.INSTALL,
    "update": TaskKind.CONFIGURE,
    "configure": TaskKind.CONFIGURE,
    "configuration": TaskKind.CONFIGURE,
    "uninstall": TaskKind.UNINSTALL,
    "uninstallation": TaskKind.UNINSTALL,
    "ingestion": TaskKind.INGESTION,
}

THESIS_CITY = (54.98, -1.61)
"""Latitude and longitude of Newcastle, where the template's devices stand."""

NEAR_DEGREES = 1.0
"""Points that come so near to `THESIS_CITY` by swapping are swapped: as written they lie in an ocean."""


@dataclass(frozen=True)
class Found:
    """A value of the template and its place."""

    value: Any
    path: Path


def fields(
    node: Any, path: Path, known: tuple[str, ...], findings: Findings, *, other: bool = False
) -> dict[str, Found]:
    """Return the fields of an object by their right keys. It may be written as a list of one-key objects.

    A key that is spelled otherwise is a warning. One that is like none is an error, or with `other` a field
    of its own.
    """
    found: dict[str, Found] = {}
    for key, value, place in _pairs(node, path, findings):
        right = _right(key, known)
        if right is None and not other:
            findings.refuse(place, "no such field", key, [*known])
            continue
        if right is not None and right.lower() != key.lower():
            findings.warn(place, "the key is written otherwise", key, right)
        right = right or key
        if right in found:
            findings.refuse(place, "the field is there twice", key, "each field once")
        found.setdefault(right, Found(value, place))
    return found


def listed(node: Any, path: Path) -> list[tuple[Any, Path]]:
    """Return the items of a list with their places. Anything else is a list of one."""
    if isinstance(node, list):
        return [(item, (*path, position)) for position, item in enumerate(node)]
    return [(node, path)]


def scalar(text: Any) -> Scalar:
    """Return the value of an argument, which the template always writes as text."""
    if not isinstance(text, str):
        return text if isinstance(text, bool | int | float) else str(text)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"-?\d{1,15}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d{1,15}\.\d{1,15}", text) else text


def _pairs(node: Any, path: Path, findings: Findings) -> list[tuple[str, Any, Path]]:
    pairs: list[tuple[str, Any, Path]] = []
    for item, place in listed(node, path):
        if isinstance(item, dict):
            pairs += [(key, value, (*place, key)) for key, value in item.items()]
        else:
            findings.refuse(place, "not an object", item if isinstance(item, str) else None, "an object")
    return pairs


def _right(key: str, known: tuple[str, ...]) -> str | None:
    plain = {_letters(name): name for name in known}
    letters = _letters(key)
    if (other := OTHER_KEYS.get(letters)) in known:
        return other
    return plain.get(letters) or plain.get(closest(letters, plain) or "")


def _letters(key: str) -> str:
    return re.sub(r"[^a-z]", "", key.lower())
