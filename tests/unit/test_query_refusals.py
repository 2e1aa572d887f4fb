"""Query texts that are refused: each error names its place, what was found, and what could stand there."""

from __future__ import annotations

import pytest

from towpath.contracts.errors import TowpathError
from towpath.contracts.operators import MAX_QUERY_TEXT
from towpath.queries.checking import check
from towpath.queries.functions import FUNCTIONS, Form, Function
from towpath.queries.meaning import QuerySet
from towpath.queries.parsing import MAX_NESTING, parse

STREAM = 'departures = STREAM FROM topic(topic="site/departures", value="delay", fields="delay:double");\n'
S = 's = STREAM FROM topic(topic="site/x")\n'


def meaning(text: str) -> QuerySet:
    return check(parse(text))


def refusal(text: str) -> TowpathError:
    with pytest.raises(TowpathError) as caught:
        meaning(text)
    return caught.value


def brackets(function: Function) -> str:
    given = {"PERCENTILE": "[50]", "TOP_K": "[3]", "HISTOGRAM": "[3]", "EWMA": "[0.5]", "PEWMA": "[0.5]"}
    return given.get(function.name, "")


def called(function: Function, name: str, arguments: str = "") -> str:
    needed = ", ".join(["delay"] * function.arguments)
    window = ", 10 s" if function.form is Form.WINDOWED else ""
    options = (
        " EVERY 5 s WITH ALGORITHM pmcod AND K=5 AND R=0.5" if function.name == "OUTLIER_DETECTION" else ""
    )
    return f"{STREAM}q = COMPUTE {name}{brackets(function)}({arguments or needed + window}){options}"


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=[*FUNCTIONS])
def test_function_when_called_as_it_should_be_then_is_accepted_by_all_its_names(function: Function) -> None:
    meanings = [
        meaning(called(function, name)) for name in (function.name, *function.synonyms, function.name.lower())
    ]

    assert all(one == meanings[0] for one in meanings)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=[*FUNCTIONS])
def test_function_when_called_otherwise_then_the_refusal_shows_how_it_is_called(function: Function) -> None:
    metrics = ", ".join(["delay"] * function.arguments)
    is_windowed = function.form is Form.WINDOWED
    wrong = [
        metrics if is_windowed else f"{metrics}, 10 s",
        f"{metrics}, delay, 10 s",
        "10 s",
        f"{metrics}, 1 s, 1 s, 1 s",
    ]

    for arguments in wrong:
        error = refusal(called(function, function.name, arguments))
        assert function.name in error.detail.message
        assert str(error.detail.allowed).startswith(function.name)
    other = called(function, function.name).replace(
        function.name + brackets(function), f"{function.name}[1, 2]"
    )
    assert "in brackets" in refusal(other).detail.message


@pytest.mark.parametrize(
    ("call", "allowed"),
    [
        ("PERCENTILE[101](x, 1 m)", "0 to 100"),
        ("TOP_K[0](x, 1 m)", "a whole number, 1 to 1,000"),
        ("HISTOGRAM[2.5](x, 1 m)", "a whole number"),
        ("EWMA[0](x)", "more than 0"),
        ("PEWMA[1](x)", "less than 1"),
    ],
)
def test_parameter_when_out_of_range_then_the_range_is_told(call: str, allowed: str) -> None:
    assert allowed in str(refusal(f"{S}q = COMPUTE {call}").detail.allowed)


MISTAKES = [
    # text, line, column, part of what is said
    ("q = COMPUTE AVG(x, 1 m", 1, 23, "the text ends too early; field line 2, column 23; allowed: "),
    ("q = COMPUTE AVG(x, 1 m))", 1, 24, "')' cannot stand here"),
    ("q = COMPUTE\n  AVG(x 1 m)", 2, 9, "'1' cannot stand here"),
    ("q = COMPUT AVG(x, 1 m)", 1, 5, "'COMPUT' cannot stand here"),
    ("q = COMPUTE AVG(x, 1 m) EVERY 5", 1, 32, "column 32; allowed: a name"),
    ("q = COMPUTE AVG(x, 1 parsec)", 1, 22, "needs a unit; field line 2, column 22 = 'parsec'"),
    ("q = COMPUTE AVG(x, 1 SECOUNDS)", 1, 22, "did you mean 'SECONDS'?"),
    ("q = COMPUTE AVERAG(x, 1 m)", 1, 13, "there is no function 'AVERAG'"),
    ("q = COMPUTE MEDAIN(x, 1 m)", 1, 13, "did you mean 'MEDIAN'?"),
    ("q = COMPUTE AVG(x)", 1, 13, "needs a window; field line 2, column 13; allowed: AVG(metric,"),
    ("q = COMPUTE AVG(1 m, x)", 1, 13, "AVG takes its window last"),
    ("q = COMPUTE AVG(x, 0 s)", 1, 20, "column 20 = '0 s'; allowed: 10 ms to 366 days"),
    ("q = COMPUTE AVG(x, 367 DAYS)", 1, 20, "allowed: 10 ms to 366 days"),
    ("q = COMPUTE AVG(x, 11 M)", 1, 20, "allowed: 1 to 10,000,000 events"),
    ("q = COMPUTE AVG(x, 1 m, 5 EVENTS)", 1, 13, "how long ago the window ended"),
    ("q = COMPUTE AVG(x, 1 m) WHEN = 5", 1, 30, "'=' cannot stand here"),
    ("q = COMPUTE AVG(x, 1 m) WHEN > 5 WHEN < 9", 1, 1, "has two WHEN"),
    ("q = COMPUTE (AVG(x, 1 m) EVERY 5 s) + 1", 1, 37, "clauses belong to the whole query"),
    ("q = COMPUTE AVG(x WHEN > 5, 1 m) + y WHEN > 1e999", 1, 45, "the number is too large"),
    ("q = COMPUTE 5 + 5", 1, 1, "'q' reads no stream"),
    ("q = COMPUTE AVG(5, 1 m)", 1, 13, "at least one metric"),
    ("q = COMPUTE AVG(AVG(x, 1 m), 1 m)", 1, 17, "a query of its own"),
    ("q = COMPUTE TOP_K[3](x, 1 m) + 1", 1, 13, "TOP_K returns a list, so it stands alone"),
    ("q = COMPUTE HISTOGRAM[3](x, 1 m) WHEN > 5", 1, 39, "HISTOGRAM returns a list, which is not compared"),
    ("q = COMPUTE TOP_K[3](x + 0, 1 m) p = COMPUTE q", 1, 46, "are lists, which no query reads"),
    ("q = COMPUTE AVG(x, 1 m) WITH SAMPEL 0.5", 1, 30, "did you mean 'SAMPLE'?"),
    ("q = COMPUTE AVG(x, 1 m) WITH SAMPLE 2", 1, 30, "SAMPLE cannot be 2.0"),
    ("q = COMPUTE AVG(x, 1 m) WITH SAMPLE 0.5 AND SAMPLE 0.5", 1, 45, "SAMPLE is given twice"),
    ("q = COMPUTE AVG(x, 1 m) WITH MAX_ERROR 0.1", 1, 30, "MAX_ERROR needs CONFIDENCE"),
    ("q = COMPUTE AVG(x, 1 m) WITH SALIENCE 5 AND SAMPLE 0.1", 1, 45, "SALIENCE chooses one"),
    ("q = COMPUTE MAX(x, 1 m) WITH SALIENCE 5", 1, 1, "SALIENCE is for estimates, and MAX of this window"),
    ("q = COMPUTE AVG(x, 9 EVENTS) WITH SALIENCE 5", 1, 1, "allowed: AVG(…, 10 MINUTES)"),
    ("q = COMPUTE AVG(x, 1 m) EVERY 2 EVENTS WITH SALIENCE 5", 1, 1, "there is no n-th one"),
    ("q = COMPUTE 1 + AVG(x, 1 m) WITH MAX_ERROR 0.1 AND CONFIDENCE 0.9", 1, 1, "'+'; allowed: products"),
    ("q = COMPUTE AVG(x, 1 m) WITH SCHEDULER enrgy", 1, 30, "SCHEDULER cannot be 'enrgy'"),
    ("q = COMPUTE AVG(x, 1 m) WITH SCHEDULER enrgy", 1, 30, "did you mean 'energy'?"),
    ("q = COMPUTE AVG(x, 1 m) WITH SCHEDULER 5", 1, 30, "allowed: baseline, performance, quality, energy"),
    (
        "q = COMPUTE AVG(x, 1 m) WITH SCHEDULER=energy\np = COMPUTE x WITH SCHEDULER=PerfScheduler", 2, 1,
        "one job answers all queries of a text, and 'q' names another SCHEDULER",
    ),
    ("q = COMPUTE OUTLIER_DETECTION(x, 1 m) WITH K=5", 1, 44, "K needs ALGORITHM and R"),
    ("q = COMPUTE AVG(x, 1 m) EVERY 1 s WITH ALGORITHM pmcod AND K=1 AND R=1", 1, 1, "belongs to OUTLIER"),
    ("q = COMPUTE OUTLIER_DETECTION(x, 1 m) EVERY 1 s", 1, 1, "outliers are detected by an algorithm"),
    ("q = COMPUTE OUTLIER_DETECTION(x, 1 m) WITH ALGORITHM pmcod AND K=1 AND R=1", 1, 1, "needs EVERY"),
    ("q = COMPUTE AVG(x, 1 m) BY k, k", 1, 1, "BY names a field twice"),
    ("q = COMPUTE AVG(x, 1 m) BY GEOHASH[13](a, b)", 1, 36, "1 to 12"),
    ("q = COMPUTE AVG(x, 1 m) BY CITY[3](a, b)", 1, 28, "the squares of a map"),
    ("q = COMPUTE AVG(x, 1 m) BY serial", 1, 28, "a column of every event"),
    ('q = COMPUTE AVG(x, 1 m) BY "two words"', 1, 28, "is not a field"),
    ("q = COMPUTE AVG(stored_at, 1 m)", 1, 17, "a column of every event"),
    ('q = COMPUTE AVG("cpu-ptc", 1 m)', 1, 17, "is not a field"),
    ('q = COMPUTE COUNT(k WHEN > "a", 1 m)', 1, 26, "texts are compared with == and !="),
    ('q = COMPUTE COUNT(k WHEN IN ("a", 1), 1 m)', 1, 19, "IN lists numbers, or texts"),
    ('q = COMPUTE COUNT(x + 1 WHEN == "a", 1 m)', 1, 30, "a computed value is a number"),
    ('q = COMPUTE COUNT(x WHEN y + 1 == "a", 1 m)', 1, 32, "a computed value is a number"),
    ('q = COMPUTE AVG(x, 1 m) WHEN IN ("a")', 1, 1, "answers are numbers"),
    ('q = COMPUTE COUNT(k WHEN == "a", 1 m) + AVG(k, 1 m)', 1, 45, "is of type string"),
    ('q = COMPUTE AVG(x, 1 m) WHEN == "a"', 1, 30, "answers are numbers"),
    ("q = COMPUTE COUNT(k, 1 m)", 1, 19, "nothing shows whether 'k' is a number or a text"),
    ("q = COMPUTE AVG(ABS(x WHEN > 5), 1 m)", 1, 21, "WHEN stands behind all that a function"),
    ('q = COMPUTE AVG("x" FROM (t), 1 m)', 1, 17, "there is no stream 't'"),
    ("q = COMPUTE INSIGHT r", 1, 21, "there is no query 'r'"),
    ("q = COMPUTE q + 1", 1, 1, "in a circle: q ← q"),
    ("q = COMPUTE p + 1 p = COMPUTE q * x", 1, 1, "in a circle: "),
    ("s = COMPUTE AVG(x, 1 m)", 1, 1, "two statements are called 's'; the first stands in line 1"),
    ("q = COMPUTE AVG(x $ 1, 1 m)", 1, 19, "'$' cannot stand here"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "said"), MISTAKES, ids=[one[0] for one in MISTAKES])
def test_mistake_when_made_then_the_error_names_its_place_and_what_could_stand_there(
    text: str, line: int, column: int, said: str
) -> None:
    error = refusal(S + text)

    assert error.detail.field == f"line {line + 1}, column {column}"
    assert said in str(error)


DECLARATIONS = [
    ("s = STREAM FROM topc(topic=\"a/b\")", "there is no provider 'topc'"),
    ("s = STREAM FROM topic(sites=\"jfk\")", "needs a topic"),
    ("s = STREAM FROM topic(topic=5)", "is not a topic"),
    ('s = STREAM FROM topic(topic="a/b", topic="a/c")', "is given twice"),
    ('s = STREAM FROM topic(topic="a/b", sites="JFK!")', "is not a site"),
    ('s = STREAM FROM topic(topic="a/b", sites="jfk", site="lga")', "a stream has sites, or one site"),
    ('s = STREAM FROM topic(topic="a/b", delay="soon")', "the delay is a length of time"),
    ('s = STREAM FROM topic(topic="a/b", delay="5 EVENTS")', "the delay is a length of time"),
    ('s = STREAM FROM topic(topic="a/b", delay=-1)', "the delay is a length of time"),
    ('s = STREAM FROM topic(topic="a/b", fields="x:number")', "the field 'x' has a type"),
    ('s = STREAM FROM topic(topic="a/b", serial=5)', "a column of every event"),
    ('s = STREAM FROM topic(topic="a/b", time="stored_at")', "a column of every event"),
    ('s = STREAM FROM metrics(topic="a/b")', "metrics(…) reads the topic site/metrics"),
    ('s = STREAM FROM storageFabric(metricID="cpu ptc")', "'cpu ptc' is not a field"),
    ('s = STREAM FROM topic(topic="{topic}")', "nothing is given for {topic}; "),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), DECLARATIONS, ids=[one[0] for one in DECLARATIONS])
def test_stream_when_declared_wrongly_then_the_error_names_the_parameter(text: str, said: str) -> None:
    error = refusal(text)

    assert str(error.detail.field).startswith("line 1, column ")
    assert said in str(error)


TWO = 's = STREAM FROM topic(topic="site/x", value="x")\nt = STREAM FROM topic(topic="site/y")\n'
OVER_ANSWERS = [
    (
        f"{TWO}p = COMPUTE AVG(s, 1 m) BY k q = COMPUTE p BY g",
        "'q' reads the answers of 'p', which are not by 'g'",
    ),
    (f"{TWO}p = COMPUTE AVG(s, 1 m) q = COMPUTE p BY k", "allowed: no BY, or BY in 'p' too"),
    (
        f"{TWO}p = COMPUTE AVG(s, 1 m) BY GEOHASH[3](a, b) q = COMPUTE p BY GEOHASH[3](c, d)",
        "not by that square 'geohash_3'",
    ),
    (f"{TWO}p = COMPUTE AVG(s, 1 m) q = COMPUTE p + 1 WITH SAMPLE 0.5", "SAMPLE chooses events of streams"),
    (
        f"{TWO}p = COMPUTE AVG(s, 1 m) q = COMPUTE AVG(p WHEN x > 5, 1 m)",
        "an answer of 'p' has one value only",
    ),
    (f'{TWO}p = COMPUTE AVG(s, 1 m) q = COMPUTE AVG(p WHEN == "a", 1 m)', "answers are numbers"),
    (f'{TWO}p = COMPUTE AVG(s, 1 m) q = COMPUTE AVG(p + "x" FROM (s), 1 m)', "meet in different functions"),
]


@pytest.mark.parametrize(("text", "said"), OVER_ANSWERS, ids=[one[1] for one in OVER_ANSWERS])
def test_answers_of_another_query_when_asked_for_what_they_lack_then_it_is_refused(
    text: str, said: str
) -> None:
    error = refusal(text)

    assert said in str(error)
    assert str(error.detail.field).startswith("line 3, column ")


@pytest.mark.parametrize("other", ['"y" FROM (t)', "INSIGHT p", "p", "t"])
def test_condition_inside_a_function_when_about_other_events_then_is_refused(other: str) -> None:
    text = f'{TWO}p = COMPUTE AVG(s, 1 m) q = COMPUTE AVG("x" FROM (s) WHEN {other} > 5, 1 m)'

    assert "is of other events than the value" in str(refusal(text))


def test_streams_of_a_topic_when_they_differ_in_time_then_are_refused() -> None:
    text = TWO + 'u = STREAM FROM topic(topic="site/x", time="at") q = COMPUTE s + u'

    assert "the events of a topic have one time" in str(refusal(text))


def nested(opening: str, depth: int, closing: str = "") -> str:
    return f"{S}q = COMPUTE {opening * depth}x{closing * depth}"


@pytest.mark.parametrize(
    ("opening", "closing"), [("(", ")"), ("-", ""), ("1 + ", ""), ("ABS(", ")"), ("2 * ", "")]
)
def test_nesting_when_at_the_limit_then_is_accepted_and_beyond_is_refused(opening: str, closing: str) -> None:
    assert meaning(nested(opening, MAX_NESTING - 1, closing)).queries

    error = refusal(nested(opening, MAX_NESTING + 1, closing))

    assert error.detail.allowed == f"at most {MAX_NESTING}"
    assert str(error.detail.field).startswith("line 2, column ")


@pytest.mark.parametrize("depth", [7, 10, 49])
def test_nesting_when_of_parentheses_with_many_values_each_then_is_refused(depth: int) -> None:
    for opening in ("(", "ABS("):
        text = f"{S}q = COMPUTE AVG({opening * depth}x{(' + 1' * 7 + ')') * depth}, 1 m)"
        assert refusal(text).detail.allowed == f"at most {MAX_NESTING}"


def test_nesting_when_values_are_separated_by_commas_then_is_not_added_up() -> None:
    assert meaning(f"{S}q = COMPUTE x WHEN IN ({', '.join(['-1'] * 500)})").queries


def test_text_when_too_long_then_is_refused() -> None:
    assert "the text is too long" in str(refusal("#" * (MAX_QUERY_TEXT + 1)))
