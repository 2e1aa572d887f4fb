"""Compile expressions in CEL, the Common Expression Language, and say what is wrong with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from towpath.contracts.errors import ErrorCode, TowpathError

if TYPE_CHECKING:
    from cel import Program

ALLOWED = "CEL, such as delay > 15 && carrier in ['AA', 'UA']"

_WRONG = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)")
_LITERAL = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", re.DOTALL)


def compiled(text: str, field: str) -> Program:
    """Compile an expression. Raises `TowpathError` (invalid) that names the place of a syntax error."""
    import cel  # Here, as most services never meet an expression.

    try:
        return cel.compile(text)
    except ValueError as error:
        found = _WRONG.search(str(error))
        reason = "line {}, column {}: {}".format(*found.groups()) if found else "it cannot be read"
        raise TowpathError(
            ErrorCode.INVALID, f"not an expression: {reason}", field=field, value=text, allowed=ALLOWED
        ) from error


def is_bound(name: str, text: str) -> bool:
    """Return true if a macro such as `exists(x, …)` binds the variable."""
    return re.search(rf"\(\s*{name}\s*,", text) is not None


def place_of(name: str, text: str) -> str:
    """Return the line and column of a name's first use outside quotes."""
    shown = _LITERAL.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    found = re.search(rf"(?<![\w.]){name}\b", shown) or re.search(rf"\b{name}\b", shown)
    at = found.start() if found else 0
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"
