"""Reads topologies from files and from the library; everything wrong is told with its place."""

from __future__ import annotations

from pydantic import ValidationError

from towpath.composition.library import Library
from towpath.composition.texts import load
from towpath.contracts.errors import TowpathError
from towpath.contracts.topology import Topology

LIBRARY = Library("towpath.lab.topology.library", "topology", "towpath fog list")


def read(given: str) -> Topology:
    """A topology from a file, or from the library by its name. Raises `TowpathError`."""
    return parse(LIBRARY.text_of(given), given)


def parse(text: str, source: str = "topology") -> Topology:
    """A topology from its text. Raises `TowpathError` naming field, value and what is allowed."""
    try:
        return Topology.model_validate(load(text))
    except ValidationError as error:
        detail = TowpathError.of_validation(error).detail
        message = f"{source}: {detail.message}"
        raise TowpathError.of(detail.model_copy(update={"message": message})) from error
