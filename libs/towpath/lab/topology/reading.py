"""Read topologies from files and from the library. Errors name their place."""

from __future__ import annotations

from towpath.composition.texts import load
from towpath.contracts.topology import Topology
from towpath.lab.library import Library

LIBRARY = Library("towpath.lab.topology.library", "topology", "towpath fog list", Topology)


def read(given: str) -> Topology:
    """Return a topology from a file, or from the library by its name. Raises `TowpathError`."""
    return parse(LIBRARY.text_of(given), given)


def parse(text: str, source: str = "topology") -> Topology:
    """Return a topology from its text. Raises `TowpathError` with field, value and what is allowed."""
    return LIBRARY.validated(load(text), source)
