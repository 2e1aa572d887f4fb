"""For any `every`, probability and seed, a rule's choices do not depend on the sizes of bundles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from towpath.contracts.faults import AtPoint, DataPoint, Rule, RuleAction
from towpath.lab.faults.conditions import Evaluation

SIZE = 2_000


def looking(every: int | None, probability: float | None, once: bool, seed: int) -> Evaluation:
    rule = Rule(
        name="r",
        event=AtPoint(point=DataPoint.SOURCE_READ),
        actions=[RuleAction(fault="drop")],
        every=every,
        probability=probability,
        once=once,
        seed=seed,
    )
    return Evaluation(rule, loaded_at=0.0)


def chosen(evaluation: Evaluation, *sizes: int) -> list[int]:
    found: list[int] = []
    for size in sizes:
        before = evaluation.looked
        found += [
            before + place + 1 for place in evaluation.select(size, lambda place: {}, lambda error: None)
        ]
    return found


@given(
    every=st.none() | st.integers(1, 50),
    probability=st.none() | st.floats(0, 1),
    once=st.booleans(),
    seed=st.integers(),
    sizes=st.lists(st.integers(0, 300), max_size=30),
)
def test_choices_when_the_seed_is_the_same_then_they_are_whatever_the_bundles(
    every: int | None, probability: float | None, once: bool, seed: int, sizes: list[int]
) -> None:
    at_once = chosen(looking(every, probability, once, seed), sum(sizes))
    bundled = looking(every, probability, once, seed)

    assert chosen(bundled, *sizes) == at_once
    assert all(number % (every or 1) == 0 for number in at_once)
    assert len(at_once) <= (1 if once else sum(sizes))
    assert bundled.acted == len(at_once)


@given(probability=st.sampled_from([0.1, 0.5, 0.9]), seed=st.integers(0, 2**32))
def test_choices_when_probability_decides_then_about_that_share_is_chosen(
    probability: float, seed: int
) -> None:
    share = len(chosen(looking(None, probability, False, seed), SIZE)) / SIZE
    assert abs(share - probability) < 6 * (probability * (1 - probability) / SIZE) ** 0.5
