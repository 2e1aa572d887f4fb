"""Writes scenarios as YAML."""

from __future__ import annotations

from typing import Any

import yaml

from towpath.contracts.scenario import Scenario


def plain(scenario: Scenario) -> dict[str, Any]:
    """A scenario as plain content, without what is as it would be anyway."""
    content = scenario.model_dump(mode="json", exclude_defaults=True)
    # Defaults, but what tells one kind from another.
    content["steady_state"] = [
        {"probe": probe.probe, **probe.model_dump(mode="json", exclude_defaults=True)}
        for probe in scenario.steady_state
    ]
    return content


def to_yaml(scenario: Scenario) -> str:
    """A scenario as the text of a file."""
    return yaml.safe_dump(plain(scenario), sort_keys=False, allow_unicode=True, width=110)
