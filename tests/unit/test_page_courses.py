"""The page draws a migration's course by a list of its own: it is that of the tables."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from towpath.contracts.commands import StrategyName
from towpath.protocols.table import strategies

TEXT = (resources.files("towpath.api") / "page" / "courses.js").read_text()
NAMES = re.compile(r"\.\.\.(\w+)|\"([\w-]+)\"")


def listed(pattern: str) -> list[str]:
    """The steps of a list in the file; names of other lists stand for theirs."""
    found = re.search(pattern + r"\s*\[(.*?)\]", TEXT, re.DOTALL)
    assert found is not None
    steps: list[str] = []
    for other, step in NAMES.findall(found[1]):
        steps += listed(rf"const {other} =") if other else [step]
    return steps


@pytest.mark.parametrize("strategy", list(strategies()))
def test_course_on_the_page_when_compared_with_the_table_then_has_its_steps(strategy: StrategyName) -> None:
    assert listed(rf"\b{strategy}:") == [step.name for step in strategies()[strategy].steps]
