"""Compare software that an operation needs with what a device has: `Java 11` is met by `Java 17.0.2`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_VERSIONED = re.compile(r"(.*?)[\s/=-]+v?(\d+(?:\.\d+)*)\S*")


def missing_software(needed: Iterable[str], present: Iterable[str]) -> list[str]:
    """Return what is needed and not present in at least the version named."""
    have: dict[str, list[tuple[int, ...]]] = {}
    for text in present:
        name, version = _parts(text)
        have.setdefault(name, []).append(version)
    return [text for text in needed if not _met(*_parts(text), have)]


def _met(name: str, version: tuple[int, ...], have: dict[str, list[tuple[int, ...]]]) -> bool:
    # Software whose version the catalogue does not say may be any.
    return any(not there or there >= version for there in have.get(name, ()))


def _parts(text: str) -> tuple[str, tuple[int, ...]]:
    found = _VERSIONED.fullmatch(text.strip())
    if found is None:
        return text.strip().lower(), ()
    return found[1].lower(), tuple(int(part) for part in found[2].split("."))
