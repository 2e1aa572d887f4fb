"""Read a package's manifest, and check it with the values of its properties. Pure."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

import msgspec

from towpath.contracts.gateway import Code, Manifest, Problem
from towpath.gateways.control import body_as, check_name, decode
from towpath.gateways.kinds.kind import kind_named
from towpath.gateways.refusal import Refusal

MANIFEST = "manifest.json"
"""Name of the manifest in a package."""

OUTPUT_ROOT = "site/"
"""Topics under which a site's broker takes events of devices."""

_OUTPUT = re.compile(r"^site(/[A-Za-z0-9_-]+)+$")
_BROKERS = ("local", "site")


def read_manifest(content: bytes) -> Manifest:
    """Return the manifest in a file, with the properties that all applications of its kind have.

    Raises `Refusal` (400) with all that is wrong.
    """
    given = body_as(decode(content, dict), Manifest)
    check_name("name", given.name)
    check_name("version", given.version)
    kind = kind_named(given.kind)
    manifest = msgspec.structs.replace(given, properties={**kind.properties, **given.properties})
    problems = [*_problems(manifest)]
    try:
        kind.check(manifest, manifest.properties)
    except Refusal as refusal:
        problems += refusal.problems
    if problems:
        raise Refusal(Code.BAD_REQUEST, *problems)
    return manifest


def _problems(manifest: Manifest) -> list[Problem]:
    problems: list[Problem] = []
    if not _OUTPUT.match(manifest.output):
        problems.append(Problem("not a topic for results", "output", manifest.output, _OUTPUT.pattern))
    if manifest.input.broker not in _BROKERS:
        problems.append(Problem("no such broker", "input.broker", manifest.input.broker, [*_BROKERS]))
    if not manifest.input.topics or not all(manifest.input.topics):
        problems.append(Problem("no topic to read", "input.topics", manifest.input.topics))
    for name, value in manifest.properties.items():
        if not isinstance(value, str | int | float | bool | list):
            problems.append(
                Problem("not a value", f"properties.{name}", value, "text, number, boolean or list")
            )
    return problems


def with_properties(manifest: Manifest, current: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return all properties of an application after some change. Raises `Refusal` (400) with all errors.

    A text is read as a value of the property's type: in plans of the thesis every value is a text.
    """
    problems: list[Problem] = []
    kept = {name: value for name, value in current.items() if name in manifest.properties}
    values = manifest.properties | kept
    for name, value in changes.items():
        if name not in manifest.properties:
            problems.append(Problem("no such property", name, value, sorted(manifest.properties)))
            continue
        wanted = _type(manifest.properties[name])
        try:
            values[name] = msgspec.convert(value, wanted, strict=False)
        except msgspec.ValidationError as error:
            problems.append(Problem(str(error), name, value, str(getattr(wanted, "__name__", wanted))))
    if problems:
        raise Refusal(Code.BAD_REQUEST, *problems)
    kind_named(manifest.kind).check(manifest, values)
    return values


def _type(default: Any) -> Any:
    # A whole number as default does not mean that only whole numbers are allowed.
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    return int | float if is_number else type(default)


def is_inside(name: str) -> bool:
    """True if a file of this name in an archive is unpacked below the archive's directory."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\\" not in name
