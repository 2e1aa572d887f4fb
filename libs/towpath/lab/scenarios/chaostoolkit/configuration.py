"""`${name}` in an experiment: what its configuration says stands there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from towpath.lab.scenarios.chaostoolkit.exporting import API

_NAME = re.compile(r"\$\{(\w+)\}")

UNTOUCHED = frozenset({API})
"""Tells that a request goes to Towpath, wherever that is."""


def substituted(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """The experiment with values of its configuration filled in; names it does not know stay.

    Secrets stay names: they belong to whoever runs it.
    """
    known = _values(experiment.get("configuration") or {})
    parts = {"method", "steady-state-hypothesis", "rollbacks"}
    return {key: _filled(value, known) if key in parts else value for key, value in experiment.items()}


def _values(configuration: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, given in configuration.items():
        if name in UNTOUCHED:
            continue
        if isinstance(given, dict) and given.get("type") == "env":
            value = os.environ.get(str(given.get("key")), given.get("default"))
            if value is not None:
                values[name] = value
        elif not isinstance(given, dict):
            values[name] = given
    return values


def _filled(content: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(content, dict):
        return {key: _filled(value, known) for key, value in content.items()}
    if isinstance(content, list):
        return [_filled(value, known) for value in content]
    if not isinstance(content, str):
        return content
    alone = _NAME.fullmatch(content)
    if alone and alone[1] in known:
        return known[alone[1]]
    return _NAME.sub(lambda found: str(known.get(found[1], found[0])), content)
