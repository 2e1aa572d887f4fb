"""The truth about answers: the language's reference over the events that the sites have stored.

`towpath.queries.reference` computes each answer from all events, in plain Python. It knows nothing of panes,
sites, micro-batches and moves. Queries are computed in two processes, because it takes its time.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

from towpath.lab.harness.answers import micros
from towpath.queries.checking import check
from towpath.queries.meaning import QuerySet
from towpath.queries.parsing import parse
from towpath.queries.reference import Answer, Event, answers

PROCESSES = 2


@dataclass(frozen=True)
class AskedEvents:
    """A text, and all that its queries could see."""

    text: str
    filled: Mapping[str, str]
    events: Sequence[Event]
    until: datetime
    """Answers of later moments are not due."""


async def expected_answers(asked: AskedEvents) -> dict[str, list[Answer]]:
    """Return the answers of each query, in order."""
    names = [query.name for query in _meaning(asked).queries]
    loop = asyncio.get_running_loop()
    # Spawned, because a fork would copy the threads' locks of this process.
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        made = await asyncio.gather(*(loop.run_in_executor(pool, answers_of, asked, name) for name in names))
    return dict(zip(names, made, strict=True))


def answers_of(asked: AskedEvents, name: str) -> list[Answer]:
    """Return the answers of one query. Blocks."""
    meaning = _meaning(asked)
    alone = replace(meaning, queries=tuple(query for query in meaning.queries if query.name == name))
    return answers(alone, asked.events, micros(asked.until))


def _meaning(asked: AskedEvents) -> QuerySet:
    return check(parse(asked.text), asked.filled)
