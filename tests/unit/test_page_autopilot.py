"""The page has lists of its own of modes, causes, states, policies and sections: they are complete."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from towpath.api.live_state import SECTIONS
from towpath.autopilot.pilot import WAITS
from towpath.contracts.autopilot import AutopilotMode, WindowCause
from towpath.placement.jobs.policies.registry import POLICIES

PAGE = resources.files("towpath.api") / "page"
NAMES = re.compile(r"\"([\w-]+)\"")
KEYS = re.compile(r"(?:^|[{,])\s*(\w+): [\"`]", re.MULTILINE)


def body_of(module: str, name: str) -> str:
    """Return what stands between the brackets of a constant."""
    text = (PAGE / module).read_text()
    found = re.search(rf"const {name} = (?:new Set\()?[\[{{](.*?)[\]}}]\)?;", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [
        ("places.js", "POLICIES", set(POLICIES)),
        ("wishes.js", "WAITS", set(WAITS)),
        ("mesh_model.js", "SECTIONS", set(SECTIONS)),
    ],
)
def test_list_on_the_page_when_compared_with_the_mesh_then_has_its_names(
    module: str, name: str, expected: set[str]
) -> None:
    assert set(NAMES.findall(body_of(module, name))) == expected


@pytest.mark.parametrize(
    ("module", "name", "kind"),
    [("autopilot.js", "MODES", AutopilotMode), ("wording.js", "LACKS", WindowCause)],
)
def test_words_on_the_page_when_compared_with_the_contracts_then_are_there_for_each(
    module: str, name: str, kind: type[AutopilotMode] | type[WindowCause]
) -> None:
    assert set(KEYS.findall(body_of(module, name))) == set(kind)
