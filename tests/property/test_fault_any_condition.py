"""For any condition: it is written down as it was read, means what its parts mean, and never fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from condition_reference import SEED, Reference
from hypothesis import example, given
from hypothesis import strategies as st

from running.example_counts import share_of_examples
from towpath.contracts.errors import TowpathError
from towpath.lab.faults.conditions import compile_condition, compile_value
from towpath.lab.faults.expressions import (
    And,
    Arithmetic,
    Between,
    Called,
    Comparison,
    Every,
    Expression,
    First,
    Listed,
    Literal,
    Negative,
    Not,
    Or,
    Path,
    Probability,
    printed,
    walk,
)
from towpath.lab.faults.parsing import MAX_CHARACTERS, MAX_DEPTH, parsed

PLAUSIBLE = st.sampled_from(["a", "b", "ab", "", "é", '"', "\\", "\n", "x y", "_id", "every"])
TEXTS = PLAUSIBLE | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.integers(0, 12) | st.sampled_from([0.5, 1e16, 2.0, 1e-7, 2**62])

names = st.sampled_from(["payload", "topic", "serial", "event", "count", "job"])
steps = st.lists(TEXTS.filter(bool) | st.integers(-3, 3), max_size=2)
paths = st.builds(lambda name, rest: Path((name, *rest)), names, steps)
literals = st.builds(Literal, TEXTS | NUMBERS | st.booleans() | st.none())


def negative(operand: Expression) -> Expression:
    """As the parser does it: a negative number is one number."""
    value = operand.value if isinstance(operand, Literal) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value != 0
    return Literal(-value) if is_number and value is not None else Negative(operand)  # type: ignore[operator]


def deeper_values(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, max_size=3).map(tuple)
    return (
        st.builds(Listed, several)
        | st.builds(negative, inner)
        | st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner)
        | st.builds(
            lambda name, value: Called(name, (value,)), st.sampled_from(["len", "lower", "abs"]), inner
        )
        | st.builds(
            lambda name, values: Called(name, values), st.sampled_from(["min", "max"]), several.filter(bool)
        )
    )


values = st.recursive(paths | literals, deeper_values, max_leaves=5)
OPERATORS = ["==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "startswith", "endswith"]
patterns = st.sampled_from(["a", "^b+$", "[0-9]+", "", r"\."]).map(Literal)
comparisons = st.builds(Comparison, st.sampled_from(OPERATORS), values, values) | st.builds(
    Comparison, st.just("matches"), values, patterns
)
spans = st.sampled_from([(0.0, 10.0), (5.0, None), (0.25, 7.5), (20.0, 1e6)])
occurrences = (
    st.builds(Every, st.integers(1, 5))
    | st.builds(Probability, st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    | spans.map(lambda span: Between(*span))
)
limits = st.builds(First, st.integers(1, 4))


def deeper_conditions(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.builds(And, several) | st.builds(Or, several) | st.builds(Not, inner)


counters = st.builds(
    lambda n: Comparison("==", Arithmetic("%", Called("counter", (Literal("c"),)), Literal(n)), Literal(0)),
    st.integers(1, 3),
)
acted = st.builds(lambda n: Comparison("<", Path(("acted",)), Literal(n)), st.integers(0, 3))
leaves = comparisons | occurrences | paths | st.booleans().map(Literal)
placewise = st.recursive(leaves, deeper_conditions, max_leaves=6)
anything = st.recursive(leaves | counters | acted, deeper_conditions, max_leaves=6)


def joined(condition: Expression, limit: Expression | None) -> Expression:
    return condition if limit is None else And((condition, limit))


conditions = st.builds(joined, placewise | anything, st.none() | limits).filter(
    lambda node: len(printed(node)) <= MAX_CHARACTERS and max(depth for _, depth in walk(node)) <= MAX_DEPTH
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-20, 20) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
payloads = json_values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=6)
occurrence_fields = st.fixed_dictionaries(
    {"payload": payloads}, optional={"topic": TEXTS, "serial": st.integers(0, 9), "job": st.none() | TEXTS}
)
bundles = st.lists(st.lists(occurrence_fields, max_size=6), min_size=1, max_size=4)


@given(conditions)
def test_condition_when_written_down_then_it_reads_as_the_same(tree: Expression) -> None:
    assert parsed(printed(tree)) == tree


@given(conditions, bundles, st.sampled_from([0.0, 6.0, 30.0]), st.booleans())
def test_select_when_given_any_bundles_then_it_equals_one_look_after_the_other(
    tree: Expression, given_bundles: list[list[dict[str, Any]]], elapsed: float, with_columns: bool
) -> None:
    condition = compile_condition(printed(tree))
    at_once = condition.start(seed=SEED, loaded_at=0.0, clock=lambda: elapsed)
    singly = condition.start(seed=SEED, loaded_at=0.0, clock=lambda: elapsed)
    reference = Reference(tree, elapsed)
    for bundle in given_bundles:

        def columns(name: str, bundle: list[dict[str, Any]] = bundle) -> Sequence[Any] | None:
            return [fields.get(name) for fields in bundle] if with_columns else None

        expected = [place for place, fields in enumerate(bundle) if reference.holds(fields)]
        assert [place for place, fields in enumerate(bundle) if singly.holds(fields)] == expected
        assert at_once.select(len(bundle), bundle.__getitem__, columns) == expected
    assert (at_once.looked, at_once.acted) == (singly.looked, singly.acted)


FRAGMENTS = r"""
and or not in every probability once first after before between startswith contains matches
payload event count args . [ ] ( ) , + - * / % == != < <= > >= = ! $ _x __class__
1 0.5 30s 10ms "a" 'b' "(" "\d" len hash counter cpu_percent site true null
lambda import eval exec : { } @ ` \ ; # é 1e999 99999999999999999999
"""
WORDS = [*FRAGMENTS.split(), "\x00", "\n"]
scribbles = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join) | st.text(max_size=60)


def compiled(compile_text: Callable[[str], Any], text: str, field: str) -> Any:
    """What a text is read as; null when it is refused, which then says all it has to."""
    try:
        return compile_text(text)
    except TowpathError as error:
        if error.detail.field != field or error.detail.value is None:
            raise AssertionError(f"refused without its place: {error.detail}") from error
        return None


@given(scribbles, occurrence_fields)
@example("(" * 1990 + "1", {})
@example("-" * 1990 + "1", {})
@example("[" * 600 + "]" * 600, {})
@example("x." * 900 + "x", {})
def test_text_when_it_is_anything_then_it_is_a_condition_or_refused_and_never_fails(
    text: str, fields: dict[str, Any]
) -> None:
    condition = compiled(compile_condition, text, "condition")
    if condition is not None:
        evaluation = condition.start(seed=SEED, loaded_at=0.0, clock=lambda: 1.0)
        assert evaluation.holds(fields) in (True, False)
        assert condition.describe()
    value = compiled(compile_value, text, "value")
    if value is not None:
        value(fields)


@share_of_examples(0.6)
@given(conditions, st.sampled_from([b"[" * 50_000, b"a" * 200_000, b'{"a": "' + b"b" * 200_000 + b'"}']))
@example(parsed(r'payload matches "(a+)+$" or payload matches "(a|a)*b"'), b"a" * 200_000)
@example(parsed("event.a * event.a * event.a * event.a > 0"), b'{"a": ' + b"9" * 4_000 + b"}")
def test_condition_when_the_payload_is_large_then_it_still_ends(tree: Expression, payload: bytes) -> None:
    evaluation = compile_condition(printed(tree)).start(seed=SEED, loaded_at=0.0, clock=lambda: 1.0)
    # A pattern or a number that takes ages would not end before the test's own time limit.
    assert evaluation.holds({"payload": payload}) in (True, False)
