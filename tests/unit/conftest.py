"""Setup of all unit tests."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import typer.testing

from running import example_counts  # noqa: F401


@pytest.fixture(autouse=True, scope="session")
def command_lines_built_once() -> Iterator[None]:
    """Build the command line of an app for its first call, not for each: it costs more than most calls do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", functools.cache(typer.testing._get_command))
        yield
