"""Writes scenarios as YAML."""

from __future__ import annotations

from typing import Any

import yaml

from towpath.contracts.scenario import Scenario


def plain(scenario: Scenario) -> dict[str, Any]:
    """A scenario as plain content, as far as it says something: what it leaves open is left out."""
    content = scenario.model_dump(mode="json", exclude_unset=True)
    # What tells one kind from another stands there, also when nobody wrote it.
    content["steady_state"] = [
        {"probe": probe.probe, **probe.model_dump(mode="json", exclude_unset=True)}
        for probe in scenario.steady_state
    ]
    return content


def to_yaml(scenario: Scenario) -> str:
    """A scenario as the text of a file."""
    return yaml.safe_dump(plain(scenario), sort_keys=False, allow_unicode=True, width=110)
