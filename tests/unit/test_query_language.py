"""Query texts: what the language accepts, and what that means."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from towpath.contracts.fields import FieldType
from towpath.contracts.pipeline import PolicyName
from towpath.placement.jobs.policies.registry import POLICIES
from towpath.queries.checking import check
from towpath.queries.compilation import Asked, compiled
from towpath.queries.meaning import FieldFilter, QuerySet, Source
from towpath.queries.parsing import parse
from towpath.queries.tree import Arithmetic, CountWindow, Metric, Number, TimeWindow, Use

HERE = Path(__file__).parent
EXAMPLES_OF_QUERIES = HERE.parents[1] / "examples" / "queries"
PAGE = (HERE.parents[1] / "docs" / "query-language.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```streamsight\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
EXAMPLES = re.split(r"(?m)^# (F.*)\n", (HERE / "streamsight_examples.txt").read_text(encoding="utf-8"))[1:]
FILLED = {"namespace": "towpath", "podName": "engine", "node-id": "jfk"}
TITLES, TEXTS = EXAMPLES[::2], EXAMPLES[1::2]
"""The published examples, as they are printed."""

STREAM = 'departures = STREAM FROM topic(topic="site/departures", value="delay", fields="delay:double");\n'


def meaning(text: str) -> QuerySet:
    return check(parse(text))


def computed(expression: str) -> Use:
    """The meaning of a query's expression, which is one function."""
    found = meaning(f"{STREAM}q = COMPUTE {expression}").queries[0].expression
    assert isinstance(found, Use)
    return found


@pytest.mark.parametrize("text", TEXTS, ids=TITLES)
def test_published_example_when_parsed_then_is_accepted(text: str) -> None:
    assert parse(text).insights


@pytest.mark.parametrize("text", TEXTS, ids=TITLES)
def test_published_example_when_compiled_then_reads_the_metrics_of_all_sites(text: str) -> None:
    missing = {*re.findall(r"FROM \((\w+)\)", text)} - {stream.name for stream in parse(text).streams}
    if not missing and not parse(text).streams:
        missing = {"energy_consumption"}
    front = "".join(f"{name} = STREAM FROM metrics()\n" for name in sorted(missing))
    asked = Asked("example", "cloud", front + text, FILLED, ["cloud", "jfk"])

    found = compiled(asked)

    assert {query.name for query in found.meaning.queries} == {one.name for one in parse(text).insights}
    assert [(at.site, at.topics) for at in found.sites] == [
        ("cloud", ("site/metrics",)),
        ("jfk", ("site/metrics",)),
    ]


def test_published_examples_when_all_are_counted_then_there_are_nine_of_them() -> None:
    assert len(TEXTS) == 9
    assert sum(len(parse(text).insights) for text in TEXTS) == 13


@pytest.mark.parametrize(
    ("written", "policy"),
    [
        ("energy", "energy"),
        ("Baseline", "baseline"),
        ("RAINBOW_EnergyAware", "energy"),
        ("RAINBOW_PerformanceAware", "performance"),
        ("rainbow_quality", "quality"),
        ("BaselineScheduler", "baseline"),
        ("PerfScheduler", "performance"),
        ("PerfDQScheduler", "quality"),
        ("RAINBOW_PerfEnergyScheduler", "energy"),
        ('"energy"', "energy"),
    ],
)
def test_scheduler_when_written_as_towpath_or_rainbow_does_then_is_a_policy(
    written: str, policy: str
) -> None:
    found = meaning(f"{STREAM}q = COMPUTE AVG(departures, 1 HOURS) WITH SCHEDULER={written}")

    assert found.scheduler == policy


def test_scheduler_when_one_query_of_a_text_names_it_then_is_that_of_all() -> None:
    asked = "a = COMPUTE AVG(departures, 1 h)  b = COMPUTE MAX(departures, 1 h)"

    assert meaning(f"{STREAM}{asked}").scheduler is None
    assert meaning(f"{STREAM}{asked} WITH SCHEDULER=quality").scheduler == "quality"


def test_scheduler_when_a_policy_has_a_name_in_contracts_then_there_is_that_policy() -> None:
    assert {str(name) for name in PolicyName} == POLICIES.keys()


@pytest.mark.parametrize("text", BLOCKS)
def test_block_of_the_page_when_checked_then_has_a_meaning(text: str) -> None:
    if not parse(text).streams:
        text = BLOCKS[0] + text
    assert check(parse(text), FILLED).queries


def test_example_of_the_mesh_when_checked_then_asks_three_questions() -> None:
    assert len(meaning((EXAMPLES_OF_QUERIES / "metrics.sight").read_text(encoding="utf-8")).queries) == 3


S = 's = STREAM FROM topic(topic="site/x")\n'


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ('s : STREAM FROM topic(topic="site/x")\nq = COMPUTE SUM(x, 1 m)', f"{S}q = COMPUTE SUM(x, 1 m)"),
        (f"{S}q = COMPUTE (SUM(x, 1 m) / (2.0))", f"{S}q = COMPUTE SUM(x, 1 m) / 2.0"),
        (
            f"{S}q = COMPUTE ((SUM(x, 1 m) WHEN > 5) BY k) EVERY 5 s",
            f"{S}q = COMPUTE SUM(x, 1 m) EVERY 5 s BY k WHEN > 5",
        ),
        (f"{S}q = COMPUTE SUM(x, 1 m) WITH SAMPLE 0.5", f"{S}q = COMPUTE SUM(x, 1 m) WITH SAMPLE = 0.5"),
        (f"{S}q = COMPUTE 3*SUM(x, 1 m) - 5.0", f"{S}q = COMPUTE 3.0 * SUM(x, 1 m) -5"),
        (f'{S}q = COMPUTE SUM("x", 1 m) BY "k"', f"{S}q = COMPUTE SUM(x, 1 m) BY k"),
        (f"{S}p = COMPUTE SUM(x, 1 m) q = COMPUTE INSIGHT p", f"{S}p = COMPUTE SUM(x, 1 m) q = COMPUTE p"),
        (
            's = STREAM FROM topic(topic="site/x") m = COMPUTE SUM("h" FROM (s), 1 h)',
            's = STREAM FROM topic(topic="site/x") m = COMPUTE SUM(h, 60 m)',
        ),
        (f"{S}p = COMPUTE AVG(x, 1 m); q = COMPUTE x;;", f"{S}p = COMPUTE AVG(x, 1 m) q = COMPUTE x"),
    ],
    ids=[
        "declared with = or :",
        "parentheses",
        "clauses inside and outside",
        "WITH",
        "whole numbers as constants",
        "quotation marks left out",
        "insights as input",
        "units as names",
        "semicolons left out",
    ],
)
def test_difference_between_published_grammar_and_examples_when_written_either_way_then_means_the_same(
    written: str, same: str
) -> None:
    assert meaning(written) == meaning(same)


def test_operators_when_mixed_then_times_binds_tighter_and_equals_associate_to_the_left() -> None:
    expression = meaning(f"{S}q = COMPUTE x - y - 2 * 3").queries[0].expression

    match expression:
        case Arithmetic("-", Arithmetic("-", Use(), Use()), Arithmetic("*", Number(2), Number(3))):
            return
    pytest.fail(str(expression))


def test_and_when_beside_or_then_binds_tighter() -> None:
    plain = meaning(f"{S}q = COMPUTE AVG(x, 1 m) WHEN > 1 OR > 2 AND < 3")
    assert plain != meaning(f"{S}q = COMPUTE AVG(x, 1 m) WHEN > 2 AND < 3 OR > 1")
    assert type(plain.queries[0].when).__name__ == "Either"


@pytest.mark.parametrize(
    "clauses",
    [
        "EVERY 5 s BY k WHEN > 5 WITH SAMPLE 0.5",
        "WITH SAMPLE 0.5 WHEN > 5 BY k EVERY 5 s",
        "WHEN > 5 EVERY 5 s WITH SAMPLE .5 BY k",
    ],
)
def test_clauses_when_in_any_order_then_mean_the_same(clauses: str) -> None:
    found = meaning(f"{S}q = COMPUTE AVG(x, 1 m) {clauses}").queries[0]

    assert found == meaning(f"{S}q = COMPUTE AVG(x, 1 m) BY k EVERY 5 s WITH SAMPLE 0.5 WHEN > 5").queries[0]


@pytest.mark.parametrize(
    ("unit", "micros"),
    [
        *[(unit, 1_000) for unit in ("ms", "MILLIS", "millis", "MILLISECONDS")],
        *[(unit, 1_000_000) for unit in ("s", "SECONDS", "seconds", "SECOND")],
        *[(unit, 60_000_000) for unit in ("m", "MINUTES", "minute")],
        *[(unit, 3_600_000_000) for unit in ("h", "HOURS", "hour")],
        ("DAYS", 86_400_000_000),
    ],
)
def test_unit_when_of_time_then_has_its_length(unit: str, micros: int) -> None:
    assert computed(f"AVG(x, 20 {unit})").window == TimeWindow(20 * micros)
    assert computed(f"AVG(x, 20{unit})").window == TimeWindow(20 * micros)


@pytest.mark.parametrize(
    ("unit", "events"), [("EVENTS", 1), ("tuples", 1), ("D", 10), ("H", 100), ("K", 1_000), ("M", 1_000_000)]
)
def test_unit_when_of_events_then_is_their_number(unit: str, events: int) -> None:
    assert computed(f"AVG(x, 3 {unit})").window == CountWindow(3 * events)
    assert meaning(f"{S}q = COMPUTE x EVERY 3 {unit}").queries[0].every == CountWindow(3 * events)


def test_second_length_when_given_then_is_how_long_ago_the_window_ended() -> None:
    assert computed("AVG(x, 1 h, 24 h)").offset_micros == 24 * 3_600_000_000


def test_comments_when_anywhere_then_say_nothing() -> None:
    assert meaning(f"# a\n{S}/* b\n ( ( */ q = COMPUTE # ( c\n AVG(x, 1 m)") == meaning(
        f"{S}q = COMPUTE AVG(x, 1 m)"
    )


def test_keywords_when_in_small_letters_then_mean_the_same() -> None:
    capitals = "AVG(x, 1 m) WHEN > 1 OR IN (7) EVERY 5 s BY k WITH SAMPLE 0.5"

    found = meaning(f's = stream from topic(topic="site/x") q = compute {capitals.lower()}')

    assert found == meaning(f"{S}q = COMPUTE {capitals}")


def test_field_when_used_then_its_uses_show_its_type() -> None:
    found = meaning(
        f'{S}q = COMPUTE COUNT(x WHEN k == "a", 1 m) BY g, n  p = COMPUTE AVG(n, 1 m) + SUM(x, 1 m)'
    )

    number, text = FieldType.DOUBLE, FieldType.STRING
    assert found.types == {"g": text, "k": text, "n": number, "x": number}


def test_stream_name_when_alone_then_stands_for_its_value() -> None:
    assert computed("departures").arguments[0].value == Metric("delay")


@pytest.mark.parametrize(
    ("parameters", "value", "chosen"),
    [
        ('metricID="cpu_ptc"', "cpu_ptc", (FieldFilter("cpu_ptc", None),)),
        ('metricID="robot_%"', "load", ()),
        ("", "load", ()),
        ('nodeID="jfk%", level=2', "load", (FieldFilter("nodeID", "jfk", True), FieldFilter("level", 2))),
        ('metricID="cpu_ptc", value="level"', "level", (FieldFilter("cpu_ptc", None),)),
    ],
)
def test_metrics_when_a_stream_names_one_then_its_own_name_stands_for_it_or_else_for_the_metric_of_that_name(
    parameters: str, value: str, chosen: tuple[FieldFilter, ...]
) -> None:
    found = meaning(f"load = STREAM FROM metrics({parameters}) q = COMPUTE AVG(load, 1 m)")

    assert found.sources["load"] == Source("load", "site/metrics", ("*",), filters=chosen)
    assert found.queries[0].arguments[0].value == Metric(value)
    assert found == meaning(f"load = STREAM FROM storageFabric({parameters}) q = COMPUTE AVG(load, 1 m)")


def test_metrics_when_their_stream_has_parameters_of_topics_then_they_mean_the_same() -> None:
    stream = 'STREAM FROM metrics(metricID="flag", sites="jfk", time="time", delay=2, fields="flag:boolean")'
    found = meaning(f"s = {stream} q = COMPUTE COUNT(s, 1 m)")

    assert found.sources["s"].place == ("site/metrics", ("jfk",))
    assert (found.sources["s"].time, found.sources["s"].delay_micros) == ("time", 2_000_000)
    assert found.types["flag"] is FieldType.BOOLEAN


@pytest.mark.parametrize("delay", ['"2 MINUTES"', '"2 m"', '"120 seconds"', "120"])
def test_delay_when_written_in_any_way_then_is_the_same_length(delay: str) -> None:
    found = meaning(f's = STREAM FROM topic(topic="a/b", delay={delay})')

    assert found.sources["s"].delay_micros == 120_000_000


@pytest.mark.parametrize("by", ["GEOHASH[3](a, b)", "geohash_3", "k", "k, geohash_3"])
def test_answers_of_another_query_when_grouped_by_its_fields_then_it_is_accepted(by: str) -> None:
    found = meaning(f"{S}q = COMPUTE p BY {by} p = COMPUTE AVG(x, 1 m) BY k, GEOHASH[3](a, b)")

    assert [query.name for query in found.queries] == ["p", "q"]
    assert "geohash_3" not in found.types


def test_places_when_texts_differ_in_layout_only_then_their_trees_are_equal() -> None:
    tree = parse(f"{STREAM}q = COMPUTE AVG( delay,\n 1 m )")

    assert tree == parse(f"{STREAM}q=COMPUTE AVG(delay,1 m)")
    assert replace(tree.insights[0], name="p") != tree.insights[0]
