"""Any text is refused with its place or has a meaning, in bounded time.

A million texts: `python tests/running/query_mutations.py --texts 1000000 --seed 1`.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from running.query_mutations import answered, broken_texts
from running.query_texts import query_text
from towpath.contracts.operators import MAX_QUERY_TEXT
from towpath.queries.checking import check
from towpath.queries.parsing import parse

BOUND_S = 20.0
"""CPU time of one text, of 200,000 characters at most. It takes half a second, and more in a busy cache."""


@pytest.mark.parametrize("seed", range(4))
def test_broken_text_when_parsed_and_checked_then_is_refused_with_its_place_or_has_a_meaning(
    seed: int,
) -> None:
    found = Counter[str]()
    for text in islice(broken_texts(seed), 10 * settings.default.max_examples):
        begin = time.thread_time()
        found[answered(text)] += 1
        assert time.thread_time() - begin < BOUND_S, text[:1_000]

    assert {*found} == {"meaning", "refused by checking", "refused by parsing"}


@given(
    st.text(max_size=60) | st.text(st.sampled_from('qs=: COMPUTEAVG(),;"#/*+-%<>[]{}.0123\n'), max_size=60)
)
def test_any_characters_when_parsed_then_are_refused_with_their_place_or_have_a_meaning(text: str) -> None:
    assert answered(text) in ("meaning", "refused by checking", "refused by parsing")


@pytest.mark.parametrize("piece", ["q = COMPUTE (", ";", "s = COMPUTE AVG(x, 1 m);\n"])
def test_text_when_as_long_as_can_be_then_takes_bounded_time(piece: str) -> None:
    text = piece * (MAX_QUERY_TEXT // len(piece))
    begin = time.thread_time()

    assert answered(text) != ""

    assert time.thread_time() - begin < BOUND_S


@given(st.integers(0, 2**32))
def test_text_when_made_by_the_rules_then_has_a_meaning_and_the_same_one_in_another_layout(seed: int) -> None:
    text = query_text(seed)

    tree = parse(text)

    assert tree == parse(re.sub(r'("[^"]*")|([ ,])', r"\1\n \2 ", text))
    assert len(check(tree).queries) == text.count("COMPUTE")
