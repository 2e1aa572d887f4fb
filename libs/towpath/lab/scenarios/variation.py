"""Vary a scenario by a seed: the same seed gives the same run."""

from __future__ import annotations

import copy
from random import Random
from typing import Any
from zlib import crc32

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.scenario import Scenario, Variation
from towpath.lab.harness.load import chance
from towpath.lab.scenarios.reading import parse

AS_WRITTEN = 0
"""The seed that changes nothing."""


def varied(document: dict[str, Any], seed: int, source: str = "scenario") -> tuple[Scenario, dict[str, Any]]:
    """Return the scenario of a document as the seed varies it, and the choices by path.

    Rules without a seed get one from the run's. Raises `TowpathError` for a path that leads nowhere, and
    for a choice that makes the scenario invalid.
    """
    written = parse(document, source)
    content = copy.deepcopy(document)
    draw = chance(written.name, seed, "variations")
    chosen: dict[str, Any] = {}
    for position, variation in enumerate(written.vary):
        value = _choice(variation, draw)
        holder, key = _place(content, variation.path, position)
        if seed != AS_WRITTEN:
            holder[key] = chosen[variation.path] = value
    for step in content.get("timeline") or ():
        for rule in step.get("load") or ():
            rule.setdefault("seed", crc32(f"{written.name} {seed} {rule.get('name')}".encode()) % 2**31)
    return parse(content, source), chosen


def _choice(variation: Variation, draw: Random) -> Any:
    if variation.one_of is not None:
        return draw.choice(variation.one_of)
    assert variation.between is not None
    low, high = variation.between
    value = draw.uniform(low, high)
    return round(value) if float(low).is_integer() and high - low >= 5 else round(value, 3)


def _place(content: Any, path: str, position: int) -> tuple[Any, Any]:
    """Return the container of a value, and the key under which it holds the value."""
    *way, last = path.split(".")
    holder = content
    try:
        for part in way:
            holder = holder[int(part) if isinstance(holder, list) else part]
        if isinstance(holder, list):
            return holder, range(len(holder))[int(last)]
        if not isinstance(holder, dict):
            raise TypeError(f"{path} goes on behind a value")
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise TowpathError(
            ErrorCode.INVALID,
            "the path leads nowhere",
            field=f"vary.{position}.path",
            value=path,
            allowed="the path of a value in this file, such as timeline.0.at",
        ) from error
    return holder, last
