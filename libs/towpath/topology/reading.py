"""Reads topologies from files and from the library; everything wrong is told with its place."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from towpath.composition.texts import load
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.topology import Topology

_LIBRARY = "towpath.topology.library"
_SUFFIX = ".yaml"


def library() -> list[str]:
    """Names of the ready topologies, in alphabetical order."""
    files = resources.files(_LIBRARY).iterdir()
    return sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX))


def library_text(name: str) -> str:
    """A ready topology as it stands in its file. Raises `TowpathError` for a name that there is not."""
    if name not in library():
        raise TowpathError(
            ErrorCode.INVALID, "no such topology", field="topology", value=name, allowed=library()
        )
    return resources.files(_LIBRARY).joinpath(name + _SUFFIX).read_text(encoding="utf-8")


def text_of(given: str) -> str:
    """The text of a file, or of a topology of the library by its name. Raises `TowpathError`."""
    path = Path(given)
    if not path.suffix and "/" not in given:
        return library_text(given)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TowpathError(
            ErrorCode.INVALID,
            f"not readable: {error}",
            field="topology",
            value=given,
            allowed="a YAML or JSON file, or a name that `towpath fog list` shows",
        ) from error


def read(given: str) -> Topology:
    """A topology from a file, or from the library by its name. Raises `TowpathError`."""
    return parse(text_of(given), given)


def parse(text: str, source: str = "topology") -> Topology:
    """A topology from its text. Raises `TowpathError` naming field, value and what is allowed."""
    try:
        return Topology.model_validate(load(text))
    except ValidationError as error:
        detail = TowpathError.of_validation(error).detail
        message = f"{source}: {detail.message}"
        raise TowpathError.of(detail.model_copy(update={"message": message})) from error
