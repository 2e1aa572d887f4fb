"""Answers made of shared panes, in any micro-batches and over restarts, are those of the slow reference."""

from __future__ import annotations

import os

import pytest

from running.query_answers import is_close
from running.query_histories import history
from running.query_panes import evaluated, meaning_of
from running.query_texts import STREAMS, query_text
from towpath.queries.reference import Answer, answers

HISTORIES = int(os.environ.get("QUERY_HISTORIES", "300"))
BEGIN = int(os.environ.get("QUERY_SEED", "0"))
ONCE_WRONG = (683, 959, 1692, 5364, 7330)
"""Two readers of one query's answers saw each twice; and a square named as another query names it was taken
for a field of events."""


def same(one: Answer, other: Answer) -> bool:
    return (one.query, one.moment, one.key) == (other.query, other.moment, other.key) and is_close(
        one.value, other.value
    )


@pytest.mark.parametrize("block", range(10))
def test_answers_when_queries_share_panes_then_are_those_of_the_reference(block: int) -> None:
    for seed in (*ONCE_WRONG[block : block + 1], *range(BEGIN + block, BEGIN + HISTORIES, 10)):
        text, events = query_text(seed), history(seed, 300 if seed % 25 == 0 else 60)
        asked = meaning_of(text)
        until = max(event.time for event in events) // 1_000_000 * 1_000_000 + 40_000_000
        expected = answers(asked, events, until)

        found = evaluated(asked, events, until, seed)

        differing = [(a, b) for a, b in zip(expected, found, strict=False) if not same(a, b)]
        assert not differing, (seed, text, differing[:2])
        assert len(found) == len(expected), (seed, text, found[len(expected) :], expected[len(found) :])


def test_probabilistic_average_when_its_training_is_over_then_is_that_of_the_reference() -> None:
    asked = meaning_of(f"s1 = STREAM FROM {STREAMS['s1']}\nq1 = COMPUTE PEWMA[0.25](s1)")
    events = history(1, 300)
    expected = answers(asked, events, 2**62)

    found = evaluated(asked, events, max(event.time for event in events) + 1_000_000_000, 1)

    assert len(expected) > 60
    assert all(same(a, b) for a, b in zip(expected, found, strict=True))
