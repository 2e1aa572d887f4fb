"""Scenarios as texts: read from files and from the library, with the place of every mistake, and written."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import ValidationError

from towpath.composition.library import Library
from towpath.composition.texts import load
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.scenario import Scenario
from towpath.lab.scenarios.checking import check_scenario
from towpath.lab.topology.reading import read as read_topology

LIBRARY = Library("towpath.lab.scenarios.library", "scenario", "towpath scenario list")


def read_document(given: str) -> dict[str, Any]:
    """The plain content of a file, or of a scenario of the library by its name.

    Raises `TowpathError` when there is neither, or when it is no mapping.
    """
    document = load(LIBRARY.text_of(given))
    if not isinstance(document, dict):
        raise TowpathError(ErrorCode.INVALID, f"{given}: not a scenario", allowed="name, steady_state, …")
    return with_triggers(document)


def with_triggers(document: dict[Any, Any]) -> dict[str, Any]:
    """The same document, `on` of its steps being a text: YAML 1.1 reads it as the truth value."""
    for step in document.get("timeline") or ():
        if isinstance(step, dict) and True in step:
            step["on"] = step.pop(True)
    return document


def parse(document: dict[str, Any], source: str = "scenario") -> Scenario:
    """A scenario from plain content, checked. Raises `TowpathError` naming field, value and allowed."""
    try:
        scenario = Scenario.model_validate(document)
    except ValidationError as error:
        detail = TowpathError.of_validation(error).detail
        message = f"{source}: {detail.message}"
        raise TowpathError.of(detail.model_copy(update={"message": message})) from error
    scenario = with_sites(scenario)
    check_scenario(scenario)
    return scenario


def with_sites(scenario: Scenario) -> Scenario:
    """The same, its sites being those of its topology where it names none. Raises `TowpathError`."""
    mesh = scenario.mesh
    if mesh.topology is None or "sites" in mesh.model_fields_set:
        return scenario
    sites = [node.name for node in read_topology(mesh.topology).nodes]
    return scenario.model_copy(update={"mesh": mesh.model_copy(update={"sites": sites})})


def read(given: str) -> Scenario:
    """A scenario from a file, or from the library by its name. Raises `TowpathError`."""
    return parse(read_document(given), given)


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
