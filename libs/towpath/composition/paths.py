"""Write the place of a field in a description: `jobs[3].inputs[0].topic`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_PLAIN = re.compile(r"[^\W\d][\w-]*")


def in_brackets(parts: Iterable[str | int]) -> str:
    """Return a path as text. Positions, and keys that are not plain words, stand in brackets."""
    text = ""
    for part in parts:
        if isinstance(part, int) or part.isdigit():
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text
