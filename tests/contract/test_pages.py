"""Pages say which tests run each block of commands, and quote code that exists."""

from __future__ import annotations

from pathlib import Path

import pytest

import parts
from running.pages import PAGES, Block, blocks, files, script
from running.places import EXAMPLES

ALL = [block for page in PAGES for block in blocks(page)]

NOT_RUN = [
    ("docs/getting-started.md", "the test runs in a checkout that is set up already"),
    ("docs/getting-started.md", "installs from a package index"),
    ("docs/laboratory.md", "plays sixty scenarios, each of which the part laboratory tests"),
    ("docs/operations.md", "needs a NATS deployment of your own"),
]
"""All blocks of commands that no test runs, with the reason. There should be few."""


def test_block_when_no_test_runs_it_then_is_counted_here() -> None:
    assert [(block.page, block.argument) for block in ALL if block.directive == "not run"] == NOT_RUN


def test_block_when_another_part_runs_it_then_that_part_exists() -> None:
    known = {part.name for part in (*parts.TEST, *parts.REST)}

    assert {part for block in ALL for part in block.parts} <= known


def test_block_of_commands_when_a_page_has_one_then_it_has_a_command() -> None:
    assert [block for block in ALL if block.language == "console" and not block.commands] == []


def test_code_when_a_page_quotes_it_then_an_example_has_it() -> None:
    examples = [example.read_text() for example in EXAMPLES.glob("*.py")]
    quoted = [block.text for block in ALL if block.language == "python" and block.directive != "file"]

    assert quoted
    assert all(any(text in example for example in examples) for text in quoted)


def test_blocks_when_a_comment_stands_above_then_is_their_directive(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n```console\n$ first  # why\noutput\n```\n<!-- a note -->\n\n"
        "<!-- file: a.txt -->\n```text\ncontent\n```\n"
        "<!-- run by: page, mesh -->\n```console\n$ second\n```\n"
    )

    first, file, second = blocks(page)

    assert (first.commands, first.is_run) == (["first  # why"], True)
    assert files([file]) == {"a.txt": "content\n"}
    assert (second.is_run, second.parts) == (False, ["page", "mesh"])


@pytest.mark.parametrize(
    ("directive", "argument", "lines"),
    [
        ("", "", ["printf '%s\\n' '$ a'", "a"]),
        ("not run", "why", []),
        (
            "stopped after",
            "5 s",
            ["printf '%s\\n' '$ a'", "set +e", "timeout 5 a", "[ $? = 124 ] || exit 1", "set -e"],
        ),
    ],
)
def test_script_when_a_block_has_a_directive_then_obeys_it(
    directive: str, argument: str, lines: list[str]
) -> None:
    block = Block("page.md", "console", "$ a\n", directive, argument)

    assert script([block]).splitlines() == ["set -euo pipefail", *lines]
