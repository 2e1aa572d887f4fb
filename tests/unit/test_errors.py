"""One line for people says which allowed name they may have meant."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError


def line(value: Any, allowed: str | list[str] | None, message: str = "no such site") -> str:
    return str(TowpathError(ErrorCode.UNKNOWN_SITE, message, field="site", value=value, allowed=allowed))


def test_error_when_the_value_is_much_like_an_allowed_name_then_its_line_suggests_it() -> None:
    assert line("jfx", ["cloud", "jfk"]) == (
        "no such site; field site = 'jfx'; allowed: cloud, jfk; did you mean 'jfk'?"
    )


@pytest.mark.parametrize(
    ("value", "allowed"),
    [("paris", ["cloud", "jfk"]), (3, ["3"]), ("jfx", "a site"), ("jfk", ["jfk"]), ("jfx", [])],
)
def test_error_when_no_allowed_name_is_close_then_its_line_suggests_none(value: Any, allowed: Any) -> None:
    assert "did you mean" not in line(value, allowed)


def test_error_when_its_message_already_suggests_a_name_then_its_line_does_not_repeat_it() -> None:
    assert line("jfx", ["jfk"], "no such site; did you mean `jfk`?").count("did you mean") == 1
