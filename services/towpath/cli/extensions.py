"""Parts of commands that extensions of Towpath add. They are entry points, imported when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

Recording = Callable[[str | None, int | None], "pandas.DataFrame"]
"""Returns recorded events: of one airport or of all, and a number of them or all."""

RunPage = Callable[[str], tuple[Path, str] | None]
"""Returns the directory of a run, and the page on it; None when there is no run of this name."""


def recordings() -> dict[str, Callable[[], Recording]]:
    """Return recordings to compare results with, by name. Calling one imports it."""
    return {point.name: point.load for point in entry_points(group="towpath.recordings")}


def run_pages() -> list[RunPage]:
    """Return the writers of pages on runs that are kept in directories."""
    return [point.load() for point in entry_points(group="towpath.run_pages")]
