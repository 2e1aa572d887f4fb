"""A text that joins a running one: what is shared, what is refused, and how it is taken out again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.queries.checking import check
from towpath.queries.compilation import Asked, compiled
from towpath.queries.joining import joined, without_query
from towpath.queries.parsing import parse

AIRPORTS = """\
# Airports.
departures = STREAM FROM topic(topic="site/departures", sites="*", time="departed_at");

# By carrier.
mean_delay = COMPUTE AVG(delay WHEN carrier != "ZZ", 1 HOURS) EVERY 10 MINUTES BY carrier;
"""
SAME_STREAM = 'departures = STREAM FROM site(sites="*", topic="site/departures", time="departed_at");\n'
OTHER = 's = STREAM FROM topic(topic="site/robots");'
RUNNING = Asked("airports", "cloud", AIRPORTS, {}, ["jfk", "cloud"])


def with_text(text: str, running: Asked = RUNNING) -> Asked:
    """The running text with another one."""
    return joined(running, replace(running, text=text, filled={})).compiled.asked


def refusal(text: str, running: Asked = RUNNING, **of_more: object) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        joined(running, replace(running, **{"text": text, "filled": {}, **of_more}))
    return refused.value


def kept(asked: Asked) -> int:
    """Numbers that are kept for each pane and key at the first site."""
    return len(compiled(asked).sites[0].plan.kept)


def test_texts_when_joined_then_stand_one_after_the_other_with_their_comments() -> None:
    more = f"# Sums.\n{SAME_STREAM}\n# For the board.\ntotal = COMPUTE SUM(delay, 1 HOURS) EVERY 10 MINUTES\n"

    found = with_text(more).text

    assert found == (
        f"{AIRPORTS}\n# Sums.\n\n# For the board.\ntotal = COMPUTE SUM(delay, 1 HOURS) EVERY 10 MINUTES\n"
    )


def test_query_when_it_needs_what_is_kept_already_then_costs_nothing() -> None:
    more = 'flights = COMPUTE COUNT(delay WHEN carrier != "ZZ", 2 HOURS) EVERY 10 MINUTES;'

    found = with_text(more)

    assert kept(found) == kept(RUNNING)
    assert compiled(found).pipeline.jobs[:-1] == compiled(RUNNING).pipeline.jobs[:-1]


def test_stream_when_it_has_another_name_in_the_new_text_then_its_events_are_counted_once() -> None:
    named = SAME_STREAM.replace("departures =", "d =")
    text = named + 'flights = COMPUTE AVG(delay WHEN carrier != "ZZ", 2 HOURS) EVERY 10 MINUTES BY carrier;'

    found = with_text(text)

    assert compiled(found).sites[0].plan.kept == compiled(RUNNING).sites[0].plan.kept
    assert compiled(found).sites[0].plan.select == compiled(RUNNING).sites[0].plan.select


def test_fields_when_the_text_gets_a_second_stream_then_name_theirs_and_mean_the_same() -> None:
    found = with_text(f"{OTHER}\nfast = COMPUTE MAX(rate, 1 m) EVERY 1 m WHEN > RUNNING_MEAN(rate);\n")

    assert 'AVG(delay FROM (departures) WHEN carrier != "ZZ", 1 HOURS)' in found.text
    assert "MAX(rate FROM (s), 1 m) EVERY 1 m WHEN > RUNNING_MEAN(rate FROM (s));" in found.text
    queries = {query.name: query for query in compiled(found).meaning.queries}
    assert queries["mean_delay"] == compiled(RUNNING).meaning.queries[0]


def test_text_when_it_joins_twice_then_nothing_changes() -> None:
    more = f"{OTHER}\nfast = COMPUTE MAX(rate, 1 m) EVERY 1 m;\n"
    once = with_text(more)

    again = joined(once, replace(once, text=more))

    assert again.compiled.asked == once
    assert again.added == ()


def test_query_when_it_reads_a_running_one_then_needs_no_stream_of_its_own() -> None:
    found = with_text("worst = COMPUTE MAX(mean_delay, 1 DAYS) EVERY 1 HOURS BY carrier;")

    assert [one.reads_answers_of for one in compiled(found).meaning.queries] == [[], ["mean_delay"]]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (f"{OTHER}\nmean_delay = COMPUTE AVG(x, 1 m) EVERY 1 m", "line 2, column 1", "another 'mean_delay'"),
        ('departures = STREAM FROM topic(topic="a")', "line 1, column 1", "another 'departures'"),
        (f"{OTHER}\ndeparted = COMPUTE AVG(mean_delay, 1 m) EVERY 1 m", "line 2, column 24", "a field here"),
        (f"{OTHER}\n\ndelay = COMPUTE AVG(x, 1 m) EVERY 1 m", "line 3, column 1", "would hide it"),
        (f"{OTHER} {OTHER}", "line 1, column 45", "two statements"),
        (f"{SAME_STREAM}\n q = COMPUTE AVG(carrier, 1 m)", "line 3, column 18", "is of type string"),
        (f'{OTHER}\nq = COMPUTE AVG(x, 1 m) + COUNT(x WHEN == "a", 1 m)', "line 2, column 40", "is of type"),
    ],
)
def test_text_when_it_does_not_fit_then_is_refused_with_the_place_in_the_new_text(
    text: str, place: str, words: str
) -> None:
    detail = refusal(text).detail

    assert (detail.field, words in detail.message) == (place, True), detail


def test_field_when_a_text_changes_its_type_then_is_refused_because_events_would_be_rejected() -> None:
    text = AIRPORTS.replace(' WHEN carrier != "ZZ"', "")

    detail = refusal("q = COMPUTE\n AVG(carrier, 1 m) EVERY 1 m", replace(RUNNING, text=text)).detail

    assert (detail.field, detail.value) == ("line 2, column 6", "carrier")
    assert "is of type string in the running text" in detail.message


def test_query_when_only_it_shows_the_type_of_a_field_then_stays() -> None:
    running = replace(
        RUNNING, text=f"{AIRPORTS}far = COMPUTE AVG(gate, 1 m); by = COMPUTE AVG(delay, 1 m) BY gate;"
    )

    with pytest.raises(TowpathError, match="only 'far' shows that 'gate' is of type double"):
        without_query(running, "far")


def test_name_when_it_is_taken_then_says_that_another_one_helps() -> None:
    allowed = refusal(f"{OTHER}\nmean_delay = COMPUTE AVG(x, 1 m) EVERY 1 m").detail.allowed

    assert "rename it" in str(allowed)


def test_placeholder_when_filled_in_before_then_keeps_its_text_and_another_one_is_refused() -> None:
    stream = 'pods = STREAM FROM metrics(entityType="POD", podName="{pod}");\n'
    running = replace(RUNNING, text=f"{stream}cpu = COMPUTE AVG(x, 1 m) EVERY 1 m;", filled={"pod": "p1"})
    more = f"{stream}most = COMPUTE MAX(x, 1 m) EVERY 1 m;"

    assert with_text(more, running).filled == {"pod": "p1"}
    detail = refusal(more, running, filled={"pod": "p2"}).detail
    assert (detail.field, detail.value) == ("line 1, column 55", "p2")


def test_text_when_asked_at_another_site_then_is_refused() -> None:
    detail = refusal("q = COMPUTE AVG(delay, 1 HOURS) EVERY 1 HOURS", site="jfk").detail

    assert (detail.code, detail.field, detail.allowed) == (ErrorCode.NOT_ALLOWED, "at", ["cloud"])


def test_running_text_when_joined_then_keeps_its_webhook_and_interval_unless_others_are_given() -> None:
    running = replace(RUNNING, trigger_s=3.0, webhook="https://a/b")
    more = replace(
        running, text="n = COMPUTE COUNT(delay, 1 HOURS) EVERY 1 HOURS", trigger_s=None, webhook=None
    )

    kept_ones = joined(running, more).compiled.asked
    others = joined(running, replace(more, trigger_s=0.0, webhook="https://c/d")).compiled.asked

    assert (kept_ones.trigger_s, kept_ones.webhook) == (3.0, "https://a/b")
    assert (others.trigger_s, others.webhook) == (0.0, "https://c/d")


def test_query_when_taken_out_then_its_streams_and_comments_go_and_all_others_mean_the_same() -> None:
    more = f"# Robots.\n{OTHER}  # all\n\n# Fast ones.\nfast = COMPUTE MAX(rate, 1 m)\n EVERY 1 m; # so\n"
    both = with_text(more)

    left = without_query(both, "fast")

    assert left.text == AIRPORTS.replace("(delay", "(delay FROM (departures)")
    assert compiled(left).sites[0].plan == compiled(RUNNING).sites[0].plan


def test_query_when_taken_out_then_a_stream_that_others_have_under_another_name_stays() -> None:
    named = SAME_STREAM.replace("departures =", "d =")
    mean = 'AVG(delay WHEN carrier != "ZZ", 1 HOURS) EVERY 10 MINUTES BY carrier;'
    both = with_text(f"{named}again = COMPUTE {mean}")

    left = without_query(both, "mean_delay")

    assert compiled(left).sites[0].plan.kept == compiled(both).sites[0].plan.kept
    assert "departures" in left.text


@pytest.mark.parametrize(
    ("more", "query", "code", "words"),
    [
        ("", "mean_delai", ErrorCode.INVALID, "no query"),
        ("", "mean_delay", ErrorCode.NOT_ALLOWED, "the last query"),
        (
            "worst = COMPUTE MAX(mean_delay, 1 DAYS) EVERY 1 HOURS",
            "mean_delay",
            ErrorCode.NOT_ALLOWED,
            "worst read(s) the answers of 'mean_delay'",
        ),
    ],
)
def test_query_when_it_cannot_be_taken_out_then_says_why(
    more: str, query: str, code: ErrorCode, words: str
) -> None:
    running = replace(RUNNING, text=AIRPORTS + more)

    with pytest.raises(TowpathError) as refused:
        without_query(running, query)

    assert (refused.value.detail.code, words in refused.value.detail.message) == (code, True)


def test_placeholder_when_no_stream_has_it_any_more_then_is_forgotten() -> None:
    stream = (
        'pods = STREAM FROM metrics(podName="{pod}");\ncpu = COMPUTE AVG("x" FROM (pods), 1 m) EVERY 1 m;\n'
    )
    both = joined(RUNNING, replace(RUNNING, text=stream, filled={"pod": "p1"})).compiled.asked

    assert without_query(both, "cpu").filled == {}
    assert check(parse(both.text), both.filled).sources.keys() == {"departures", "pods"}
