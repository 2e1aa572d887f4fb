"""What extensions of Towpath bring to its commands: by entry points, imported when a command needs them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

Recording = Callable[[str | None, int | None], "pandas.DataFrame"]
"""Events as they were recorded: of one airport, or of all; so many of them, or all."""

RunPage = Callable[[str], tuple[Path, str] | None]
"""The directory of a run, and the page on it; null when nothing of this name is a run."""


def recordings() -> dict[str, Callable[[], Recording]]:
    """Recordings that results can be compared with, by name. What is called imports one."""
    return {point.name: point.load for point in entry_points(group="towpath.recordings")}


def run_pages() -> list[RunPage]:
    """What writes pages on runs that are kept in directories."""
    return [point.load() for point in entry_points(group="towpath.run_pages")]
