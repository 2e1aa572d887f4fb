"""Lines of text as device events: those of PEP 20 that hold words, over and over."""

from __future__ import annotations

import codecs
import contextlib
import importlib
import io
import itertools
import json
import re
from collections.abc import Iterator
from functools import cache


@cache
def lines() -> tuple[str, ...]:
    """Return the lines of PEP 20 that hold words. Its author placed it in the public domain."""
    with contextlib.redirect_stdout(io.StringIO()):
        zen = importlib.import_module("this")
    text = codecs.decode(zen.s, "rot13")
    return tuple(line for line in text.splitlines() if line.strip())


def line_events() -> Iterator[bytes]:
    """Yield events with a line each. The text begins again when it is over."""
    return itertools.cycle([json.dumps({"line": line}).encode() for line in lines()])


def words_in(line: str) -> int:
    """Return the number of words in a line."""
    return len(re.findall(r"[A-Za-z']+", line))
