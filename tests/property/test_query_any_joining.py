"""Any two texts that fit together: joined, they have the queries of both, and keep each number once."""

from __future__ import annotations

import re

import pytest

from running.query_answers import is_close
from running.query_histories import history
from running.query_panes import evaluated, meaning_of
from running.query_texts import query_text
from towpath.queries.checking import check
from towpath.queries.compilation import Asked, compiled
from towpath.queries.joining import joined, without_query
from towpath.queries.meaning import Query
from towpath.queries.parsing import parse
from towpath.queries.planning import SharedPlan
from towpath.queries.reference import answers
from towpath.queries.wording import argument_text

TEXTS = 150


def asked(text: str) -> Asked:
    return Asked("both", "jfk", text, {}, ["jfk", "lga"])


def plan(of: Asked) -> SharedPlan:
    """The plan of the first site."""
    return compiled(of).sites[0].plan


def queries(of: Asked) -> set[Query]:
    return set(check(parse(of.text)).queries)


def second(seed: int) -> str:
    """A text whose queries are called otherwise than those of another seed."""
    return re.sub(r"\bq(\d)\b", r"p\1", query_text(seed + 10_000))


def with_other_streams(text: str) -> str:
    """Call the streams of a text otherwise."""
    return re.sub(r"\bs(\d)\b", r"t\1", text)


@pytest.mark.parametrize("block", range(5))
def test_texts_when_joined_then_the_plan_is_the_union_of_both_and_can_be_taken_apart(block: int) -> None:
    for seed in range(block, TEXTS, 5):
        one, other = asked(query_text(seed)), asked(second(seed))

        both = joined(one, other)

        whole = both.compiled.asked
        assert queries(whole) == queries(one) | queries(other), seed
        kept = {
            column.name
            for each in (one, other)
            for place in compiled(each).sites
            for column in place.plan.kept
        }
        found = [column.name for column in plan(whole).kept]
        assert len(found) == len({*found}), seed
        assert {*found} == kept, (seed, [argument_text(each) for each in plan(whole).arguments.values()])
        assert joined(whole, other).compiled.asked == whole, seed
        _check_taken_apart(one, whole, both.added)


@pytest.mark.parametrize("seed", range(60))
def test_streams_when_each_text_calls_them_otherwise_then_numbers_are_kept_once_and_answers_are_right(
    seed: int,
) -> None:
    one, other = asked(query_text(seed)), asked(second(seed))
    together = joined(one, other).compiled

    whole = joined(one, asked(with_other_streams(other.text))).compiled

    assert len(whole.sites[0].plan.kept) == len(together.sites[0].plan.kept), seed
    meaning, events = meaning_of(whole.asked.text), history(seed, 40)
    until = max(event.time for event in events) // 1_000_000 * 1_000_000 + 40_000_000
    expected, found = answers(meaning, events, until), evaluated(meaning, events, until, seed)
    assert [(each.query, each.moment, each.key) for each in found] == [
        (each.query, each.moment, each.key) for each in expected
    ]
    assert all(is_close(a.value, b.value) for a, b in zip(expected, found, strict=True)), seed


def _check_taken_apart(one: Asked, whole: Asked, added: tuple[str, ...]) -> None:
    """Take the added queries out again, those that read others first."""
    left = whole
    for query in [each.name for each in compiled(whole).meaning.queries if each.name in added][::-1]:
        left = without_query(left, query)
    assert queries(left) == queries(one)
    assert plan(left).kept == plan(one).kept
