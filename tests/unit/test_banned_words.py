"""The guard of plain words finds what it must, and only in texts."""

from __future__ import annotations

import pytest

from banned_words import stumbles


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('"""Start it anew."""', 1),
        ("x = 1\n# Nobody asks.", 2),
        ('"""Wait.\n\nIt waits for\never."""', 3),
        ('raise OSError(f"{1}: whoever")', 1),
        ('def f() -> None:\n    """What is left of it."""', 2),
        ('class A:\n    b: bool\n    """Whether it is so."""', 3),
    ],
)
def test_stumbles_when_a_text_has_a_banned_word_then_it_is_told_with_its_line(text: str, line: int) -> None:
    assert [at for at, _ in stumbles("a.py", text)] == [line]


def test_stumbles_when_a_word_is_banned_then_the_plain_one_is_named() -> None:
    assert list(stumbles("a.md", "One\n\nYou shall.")) == [(3, "'shall': write 'must or will'")]


def test_stumbles_when_only_a_name_has_the_word_then_nothing_is_told() -> None:
    assert not list(stumbles("a.py", 'def nobody(whoever: int) -> int:\n    """Return it. What else?"""'))
