"""Read scenarios from files and from the library, and write them. Errors name their place."""

from __future__ import annotations

from typing import Any, Literal, get_origin

import yaml
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from towpath.composition.texts import load
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.scenario import Scenario
from towpath.lab.library import Library
from towpath.lab.scenarios.checking import check_scenario
from towpath.lab.topology.reading import read as read_topology

LIBRARY = Library("towpath.lab.scenarios.library", "scenario", "towpath scenario list", Scenario)


def read_document(given: str) -> dict[str, Any]:
    """Return the plain content of a file, or of a scenario of the library by its name.

    Raises `TowpathError` when there is neither, or when it is no mapping.
    """
    document = load(LIBRARY.text_of(given))
    if not isinstance(document, dict):
        raise TowpathError(ErrorCode.INVALID, f"{given}: not a scenario", allowed="name, steady_state, …")
    return with_triggers(document)


def with_triggers(document: dict[Any, Any]) -> dict[str, Any]:
    """Return the document with `on` of its steps as a text: YAML 1.1 reads it as the truth value."""
    for step in document.get("timeline") or ():
        if isinstance(step, dict) and True in step:
            step["on"] = step.pop(True)
    return document


def parse(document: dict[str, Any], source: str = "scenario") -> Scenario:
    """Return a checked scenario from plain content. Raises `TowpathError` with field, value and allowed."""
    scenario = with_sites(LIBRARY.validated(document, source))
    check_scenario(scenario)
    return scenario


def with_sites(scenario: Scenario) -> Scenario:
    """Return the scenario with its topology's sites, unless it names sites. Raises `TowpathError`."""
    mesh = scenario.mesh
    if mesh.topology is None or "sites" in mesh.model_fields_set:
        return scenario
    sites = [node.name for node in read_topology(mesh.topology).nodes]
    return scenario.model_copy(update={"mesh": mesh.model_copy(update={"sites": sites})})


def read(given: str) -> Scenario:
    """Return a scenario from a file, or from the library by its name. Raises `TowpathError`."""
    return parse(read_document(given), given)


def plain(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as plain content, without the fields that it leaves open."""
    return _written(scenario)


def _written(value: Any) -> Any:
    match value:
        case BaseModel():
            return {
                name: _written(getattr(value, name))
                for name, field in type(value).model_fields.items()
                # The kind of an operator, probe or step must be there even if a program left it open.
                if name in value.model_fields_set or get_origin(field.annotation) is Literal
            }
        case list() | tuple():
            return [_written(each) for each in value]
        case dict():
            return {name: _written(each) for name, each in value.items()}
        case _:
            return to_jsonable_python(value)


def to_yaml(scenario: Scenario) -> str:
    """Return a scenario as the text of a file."""
    return yaml.safe_dump(plain(scenario), sort_keys=False, allow_unicode=True, width=110)
