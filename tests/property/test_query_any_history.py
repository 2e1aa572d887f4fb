"""The reference's answers keep their promises, whatever is asked and whatever comes."""

from __future__ import annotations

from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from running.example_counts import share_of_examples
from running.query_histories import SECOND, history
from running.query_texts import query_text
from towpath.queries.checking import check
from towpath.queries.parsing import parse
from towpath.queries.reference import answers
from towpath.queries.tree import TimeWindow

seeds = st.integers(0, 2**32)
LATER = 10_000 * SECOND


@share_of_examples(0.5)
@given(seeds)
def test_answers_when_events_come_in_any_order_or_less_is_asked_then_are_the_same(
    seed: int,
) -> None:
    queries, events = check(parse(query_text(seed))), history(seed, 60)
    end = max(event.time for event in events)
    shuffled = Random(seed).sample(events, len(events))

    found = answers(queries, events, end + LATER)

    assert answers(queries, shuffled, end + LATER) == found
    middle = Random(seed).randrange(events[0].time, end)
    assert answers(queries, events, middle) == [one for one in found if one.moment <= middle]


@share_of_examples(0.5)
@given(seeds)
def test_answers_when_of_a_query_then_have_its_key_a_moment_of_its_own_and_a_value(seed: int) -> None:
    queries, events = check(parse(query_text(seed))), history(seed, 60)
    by_name = {query.name: query for query in queries.queries}

    for one in answers(queries, events, 2**62):
        query = by_name[one.query]
        assert [name for name, _ in one.key] == [grouping.name for grouping in query.by]
        assert one.value == one.value
        if isinstance(query.every, TimeWindow):
            assert one.moment % query.every.micros == 0


@share_of_examples(0.5)
@given(seeds)
def test_answers_when_a_query_is_asked_alone_then_are_those_that_it_has_among_others(seed: int) -> None:
    text = query_text(seed)
    alone = "".join(line + "\n" for line in text.splitlines() if "STREAM" in line or line.startswith("q1 "))
    together, apart = check(parse(text)), check(parse(alone))
    # The others may show types of more fields, and an event with another type is rejected for all.
    assume(apart.types == together.types)

    found = answers(together, history(seed, 60), 2**62)

    assert answers(apart, history(seed, 60), 2**62) == [one for one in found if one.query == "q1"]
