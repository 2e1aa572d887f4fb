"""Whatever a payload is and however it is written: which are not read changes nothing of what is picked."""

from __future__ import annotations

import json

from hypothesis import event, example, given
from hypothesis import strategies as st

from towpath.lab.faults.conditions import compile_condition
from towpath.lab.faults.expressions import (
    And,
    Comparison,
    Expression,
    Listed,
    Literal,
    Not,
    Or,
    Path,
    printed,
)

TEXTS = st.sampled_from(["a", "ab", "b", "x y", "é", "\U0001f600", "true", "1", '"', "\\", "\n", "a\x00", ""])
KEYS = TEXTS.filter(bool)
NUMBERS = st.integers(-2, 2) | st.sampled_from([0.5, 1e300])

paths = st.builds(lambda rest: Path(("event", *rest)), st.lists(KEYS | st.integers(-1, 1), max_size=2))
literals = st.builds(Literal, TEXTS | NUMBERS | st.booleans() | st.none())
lists = st.builds(Listed, st.lists(literals, max_size=3).map(tuple))
OPERATORS = ["==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "startswith", "endswith"]
sides = paths | literals | lists
comparisons = st.builds(Comparison, st.sampled_from(OPERATORS), paths, literals | lists) | st.builds(
    Comparison, st.sampled_from(OPERATORS), sides, sides
)
matching = st.builds(Comparison, st.just("matches"), paths, st.sampled_from(["a", "", "."]).map(Literal))
conditions = st.recursive(
    comparisons | matching | paths,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(lambda one, other: And((one, other)), inner, inner)
        | st.builds(lambda one, other: Or((one, other)), inner, inner)
    ),
    max_leaves=3,
)

documents = st.recursive(
    TEXTS | NUMBERS | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"]


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """A document, in one of the many ways in which it may be written; or no document."""
    text = json.dumps(draw(documents), ensure_ascii=draw(st.booleans()))
    for character in draw(st.lists(st.sampled_from("abtx1"), max_size=2)):
        # JSON may escape any character of a text. Elsewhere that makes it no JSON, which is also something.
        text = text.replace(character, f"\\u{ord(character):04x}")
    written = text.encode(draw(st.sampled_from(ENCODINGS)))
    return written if draw(st.integers(0, 9)) else written[: draw(st.integers(0, 9))] + draw(st.binary())


@given(conditions, st.lists(payloads(), min_size=1, max_size=4))
@example(Comparison("==", Path(("event", "a")), Literal("A")), [b'{"a": "\\u0041"}', b'{"a": "A"}', b"{}"])
@example(Comparison("==", Path(("event",)), Literal("\U0001f600")), [b'"\xed\xa0\xbd\xed\xb8\x80"'])
@example(Comparison("==", Path(("event", "a")), Literal("b")), ['{"a": "b"}'.encode("utf-16")])
@example(Comparison("<", Path(("event", "a")), Literal(1)), [b'{"\\u0061": 0}'])
@example(Path(("event", "a")), [b'{"a": true}', b'{"a": 1}'])
def test_select_when_payloads_are_sifted_then_it_picks_what_reading_each_would(
    tree: Expression, bundle: list[bytes]
) -> None:
    condition = compile_condition(printed(tree))
    each = condition.start(seed=0, loaded_at=0.0)
    expected = [place for place, payload in enumerate(bundle) if each.holds({"payload": payload})]
    event("some are picked" if expected else "none is picked")

    at_once = condition.start(seed=0, loaded_at=0.0)
    picked = at_once.select(
        len(bundle),
        lambda place: {"payload": bundle[place]},
        lambda name: bundle if name == "payload" else None,
    )
    assert picked == expected
