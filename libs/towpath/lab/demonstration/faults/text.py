"""The text whose words are counted: PEP 20, which its author placed in the public domain."""

from __future__ import annotations

import codecs
import contextlib
import importlib
import io
import itertools
import json
import re
from collections.abc import Iterator

from towpath.lab.harness.load import DueEvent


def lines() -> list[str]:
    """The lines of the Zen of Python that hold words, as every interpreter has them."""
    with contextlib.redirect_stdout(io.StringIO()):
        zen = importlib.import_module("this")
    text = codecs.decode(zen.s, "rot13")
    return [line for line in text.splitlines() if line.strip()]


def words_in(line: str) -> int:
    """How many words a line has."""
    return len(re.findall(r"[A-Za-z']+", line))


def events(count: int) -> Iterator[DueEvent]:
    """So many events, a line each, over and over again."""
    payloads = [DueEvent(json.dumps({"line": line}).encode()) for line in lines()]
    return itertools.islice(itertools.cycle(payloads), count)


def words_of_events(count: int) -> int:
    """How many words so many events hold."""
    each = [words_in(line) for line in lines()]
    rounds, rest = divmod(count, len(each))
    return rounds * sum(each) + sum(each[:rest])
