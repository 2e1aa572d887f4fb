"""Links between documents: which are found, and which lead nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from document_links import anchors, dead_links, links


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See [a](b.md) and ![c](d.png).", ["b.md", "d.png"]),
        ("[a](https://example.org) [b](mailto:x@example.org)", []),
        ("[a](#part)", ["#part"]),
        ('[a](b.md "title")', ["b.md"]),
        ("`[a](b.md)`", []),
        ("```\n[a](b.md)\n```\n[c](d.md)", ["d.md"]),
    ],
)
def test_links_when_a_page_has_some_then_those_to_files_are_found(text: str, found: list[str]) -> None:
    assert links(text) == found


def test_anchors_when_headings_repeat_then_are_numbered() -> None:
    assert anchors("# One, two\n## The `OUT` stream\n## One, two\n```\n# no heading\n```\n") == {
        "one-two",
        "the-out-stream",
        "one-two-1",
    }


def test_dead_links_when_file_or_heading_is_missing_then_are_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# Here\n")
    page.write_text("[a](other.md#here) [b](other.md#there) [c](gone.md) [d](#nowhere) [e](other.md)\n")

    assert list(dead_links(page)) == [
        f"{page}: other.md#there: there is no such heading",
        f"{page}: gone.md: there is no such file",
        f"{page}: #nowhere: there is no such heading",
    ]
