"""Help for someone who writes a query: the place of a mistake, and the words that may stand at the cursor."""

from __future__ import annotations

import pytest

from towpath.contracts.query import CheckedQueries, QueriesToCheck
from towpath.queries.half_written import checked

STREAMS = 's1 = STREAM FROM topic(topic="site/a", time="at", value="v");\nq = COMPUTE AVG(s1, 1 m) BY k;\n'


def helped(text: str) -> CheckedQueries:
    """Return the help for a text whose cursor stands at `|`, or at its end."""
    before, _, after = text.partition("|")
    asked = QueriesToCheck(text=STREAMS + before + after, cursor=len(STREAMS + before))
    return checked(asked, topics=["site/b", "site/a"], sites=["lga", "jfk"])


def offered(text: str) -> list[str]:
    return [offer.text for offer in helped(text).offers]


OF_METRICS = ("metricID", "entityType", "nodeID", "podName", "podNamespace")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("z = ", ["STREAM", "COMPUTE"]),
        ("z = STREAM FROM topic(", ["topic", "sites", "time", "delay", "value", "fields"]),
        ("z = STREAM FROM metrics(", [*OF_METRICS, "sites", "time", "delay", "value", "fields"]),
        ('z = STREAM FROM topic(topic="si', ["site/a", "site/b"]),
        ('z = STREAM FROM topic(topic="site/a", sites="jfk,|', ["*", "jfk", "lga"]),
        ("z = COMPUTE AVG(s1, 10 |)", ["SECONDS", "MINUTES", "HOURS", "DAYS", "EVENTS", "WHEN"]),
        ("z = COMPUTE AVG(delay FROM (", ["s1"]),
        ("z = COMPUTE AVG(INSIGHT ", ["q", "z"]),
        ("z = COMPUTE AVG(s1, 10 m) ", ["EVERY", "BY", "WHEN", "WITH"]),
        ("z = COMPUTE AVG(s1, 10 m) BY k", ["at", "v", "k"]),
        ("z = COMPUTE AVG(s1, 10 m) WITH SCHEDULER=e", ["baseline", "performance", "quality", "energy"]),
        ("scheduler = ", ["STREAM", "COMPUTE"]),
        ("# AVG", []),
        ("name", []),
    ],
)
def test_offers_when_the_cursor_stands_somewhere_then_are_the_words_that_fit_there(
    text: str, words: list[str]
) -> None:
    found = offered(text)

    assert sorted(found) == sorted(words)


def test_offers_when_a_value_may_stand_there_then_are_functions_streams_queries_and_fields() -> None:
    found = offered("z = COMPUTE AVG(s1, 1 m) / | + delay")

    assert {"AVG", "TOP_K", "s1", "q", "at", "v", "k", "delay"} <= {*found}
    assert not {"EVERY", "SECONDS", "topic"} & {*found}


def test_offers_when_a_mistake_is_in_front_then_are_all_words_of_the_language() -> None:
    assert {"AVG", "EVERY", "SECONDS", "s1", "k"} <= {*offered("z = ) COMPUTE A")}


def test_offers_when_a_word_is_begun_then_replace_all_of_it() -> None:
    assert helped("z = COMPUTE A|V(s1, 1 m)").offers_begin == len(STREAMS + "z = COMPUTE ")


def test_check_when_a_word_is_wrong_then_names_its_place_and_what_is_allowed() -> None:
    found = helped("z = COMPUTE AVG(s1, 10 MINUTS)")

    mistake = found.mistake
    assert mistake is not None
    assert (mistake.line, mistake.column, mistake.found) == (3, 24, "MINUTS")
    assert "MINUTES" in (mistake.allowed or ())
    assert found.queries == []


def test_check_when_the_text_is_right_then_lists_queries_and_placeholders() -> None:
    text = 's = STREAM FROM topic(topic="site/a", pod="{name}")\nq = COMPUTE MAX(x, 1 m) EVERY 5 s BY k'
    asked = QueriesToCheck(text=text, filled={"name": "p1"})

    found = checked(asked, topics=[], sites=["jfk"])

    assert (found.mistake, found.placeholders) == (None, ["name"])
    assert [(one.query, one.moments, one.by, one.reads) for one in found.queries] == [
        ("q", "every 5 s", ["k"], ["s"])
    ]
