"""The promises of README and pages are tested, and documents describe the tests as they are."""

from __future__ import annotations

import re

import pytest

import parts
from running.places import ROOT
from running.promises import PROMISES

TESTS = ROOT / "tests"


@pytest.mark.parametrize("name", PROMISES)
def test_promise_when_it_is_listed_then_a_page_makes_it_and_a_test_keeps_it(name: str) -> None:
    pages = [" ".join(page.read_text().split()) for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"))]
    keeping = [
        path for path in TESTS.glob("end_to_end/**/test_*.py") if f'promise("{name}")' in path.read_text()
    ]

    assert any(PROMISES[name] in page for page in pages)
    assert keeping


def test_table_of_parts_when_a_part_changes_then_is_the_same() -> None:
    rows = re.findall(r"^\| `.*$", (TESTS / "README.md").read_text().partition("## Where")[0], re.MULTILINE)

    assert rows == [parts.row(part) for part in (*parts.TEST, *parts.REST)]


def test_folder_of_end_to_end_tests_when_there_is_one_then_a_part_runs_it() -> None:
    folders = {path.parent.name for path in TESTS.glob("end_to_end/*/test_*.py")}

    assert folders == {part.name for part in parts.REST if part.paths[0].startswith("end_to_end")}
