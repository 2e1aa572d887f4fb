"""`towpath check` on files: what may stand in them, what each rule says, how a run ends."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from towpath.checker.conditions import holding
from towpath.checker.history import inputs_of
from towpath.cli import check_files
from towpath.cli.__main__ import app
from towpath.cli.check_topics import read_expected
from towpath.cli.endings import BAD_INPUT
from towpath.contracts.errors import TowpathError

EVENTS = [
    {"id": 1, "at": "2026-01-01T00:00:01Z", "device": "a", "level": 3, "text": "to be or"},
    {"id": 2, "at": "2026-01-01T00:00:09Z", "device": "a", "level": 5, "text": "not to be"},
    {"id": 3, "at": "2026-01-01T00:00:10Z", "device": "a", "level": 7, "text": "that"},
    {"id": 4, "at": "2026-01-01T00:00:02Z", "device": "b", "level": None, "text": None},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def lines(path: Path, records: Iterable[Mapping[str, Any] | str]) -> str:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in records]
    content = "".join(text + "\n" for text in texts).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def check(
    folder: Path, output: Iterable[Mapping[str, Any] | str], *options: str, events: Any = None
) -> tuple[Result, dict[str, Any]]:
    """Judge `output` by the rule of the options; the found words and how often."""
    fed = [] if "--truth" in options else ["--input", lines(folder / "in.jsonl", events or EVENTS)]
    out = lines(folder / "out.jsonl", output)
    result = CliRunner().invoke(app, ["check", *fed, "--output", out, "--json", *options])
    return result, json.loads(result.stdout)["found"] if result.stdout else {}


def window(start: str, device: str, **number: Any) -> dict[str, Any]:
    return {"window_start": f"2026-01-01T00:00:{start}Z", "device": device, **number}


WINDOW = ("--key", "device", "--size-s", "10", "--time-field", "at")
VALUE = (*WINDOW, "--value-field", "level")
RANGE = [{"after": 0, "through": 3, "device": "a"}, {"after": 3, "through": 4, "device": "b"}]


def ranges(*numbers: dict[str, Any]) -> list[dict[str, Any]]:
    return [place | number for place, number in zip(RANGE, numbers, strict=True)]


RIGHT: list[tuple[str, tuple[str, ...], list[dict[str, Any]]]] = [
    ("pass-through", (), EVENTS),
    (
        "pass-through",
        ("--identity", "id", "--compare", "level"),
        [{"id": e["id"], "level": e["level"]} for e in EVENTS],
    ),
    ("filter", ("--where", "level >= 5 && device != 'b'"), EVENTS[1:3]),
    (
        "window-count",
        WINDOW,
        [window("00", "b", count=1), window("00", "a", count=2), window("10", "a", count=1)],
    ),
    ("window-sum", VALUE, [window("00", "a", sum=8), window("00", "b"), window("10", "a", sum=7)]),
    ("window-min", VALUE, [window("00", "a", min=3), window("00", "b", min=None), window("10", "a", min=7)]),
    ("window-max", VALUE, [window("00", "a", max=5), window("00", "b"), window("10", "a", max=7)]),
    (
        "window-average",
        (*VALUE, "--result-field", "mean"),
        [window("00", "a", mean=4.0), window("00", "b"), window("10", "a", mean=7)],
    ),
    ("range-count", ("--key", "device"), ranges({"count": 3}, {"count": 1})),
    ("range-sum", ("--key", "device", "--value-field", "level"), ranges({"sum": 15}, {})),
    ("range-min", ("--key", "device", "--value-field", "level"), ranges({"min": 3}, {})),
    ("range-max", ("--key", "device", "--value-field", "level"), ranges({"max": 7}, {})),
    (
        "range-average",
        ("--key", "device", "--value-field", "level", "--serial-field", "id"),
        ranges({"average": 5}, {}),
    ),
    (
        "word-count",
        (),
        [{"word": w, "count": n} for w, n in (("to", 2), ("be", 2), ("or", 1), ("not", 1), ("that", 1))],
    ),
    (
        "word-count",
        ("--size-s", "10", "--time-field", "at"),
        [
            {"window_start": 1_767_225_600 + at, "word": w, "count": n}
            for at, w, n in ((0, "to", 2), (0, "be", 2), (0, "or", 1), (0, "not", 1), (10, "that", 1))
        ],
    ),
    (
        "running-count",
        ("--key", "device"),
        [{"device": d, "count": n} for d, n in (("a", 1), ("b", 1), ("a", 2), ("a", 3))],
    ),
    ("latest-by-key", ("--key", "device", "--time-field", "at"), [EVENTS[0], EVENTS[3], EVENTS[2]]),
]


@pytest.mark.parametrize(("rule", "options", "output"), RIGHT)
def test_rule_when_results_are_those_worked_out_by_hand_then_nothing_is_found(
    folder: Path, rule: str, options: tuple[str, ...], output: list[dict[str, Any]]
) -> None:
    result, found = check(folder, output, "--rule", rule, *options)
    assert (result.exit_code, found) == (0, {}), result.output


@pytest.mark.parametrize(("rule", "options", "output"), RIGHT)
def test_rule_when_the_last_result_is_missing_then_one_is_lost_and_the_exit_code_is_1(
    folder: Path, rule: str, options: tuple[str, ...], output: list[dict[str, Any]]
) -> None:
    result, found = check(folder, output[:-1], "--rule", rule, *options)
    assert (result.exit_code, found) == (1, {"lost": 1}), result.output


COUNTS = RIGHT[3][2]


@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz", "in.jsonl.gz"])
def test_events_when_csv_or_packed_then_are_read_as_the_same(folder: Path, name: str) -> None:
    rows = ["id,at,device,level", *(f"{e['id']},{e['at']},{e['device']},{e['level'] or ''}" for e in EVENTS)]
    file = lines(folder / name, rows if ".csv" in name else EVENTS)
    out = lines(folder / "out.jsonl.gz", RIGHT[4][2])
    result = CliRunner().invoke(
        app, ["check", "--input", file, "--output", out, "--rule", "window-sum", *VALUE]
    )
    assert result.exit_code == 0, result.output


def test_output_when_recorded_by_mosquitto_sub_then_is_read_with_its_times(folder: Path) -> None:
    texts = [
        {"tst": "2026-01-01T00:01:00.000000+0000", "topic": "out", "qos": 1, "payload": json.dumps(body)}
        for body in COUNTS
    ]
    assert check(folder, texts, "--rule", "window-count", *WINDOW)[1] == {}
    as_objects = [text | {"payload": json.loads(text["payload"])} for text in texts]
    assert check(folder, as_objects, "--rule", "window-count", *WINDOW)[1] == {}


def towpath_result(body: dict[str, Any], epoch: int = 1) -> dict[str, Any]:
    start = body["window_start"]
    bounds = {"start": start, "end": start.replace(":00Z", ":10Z") if ":00Z" in start else start[:-3] + "20Z"}
    envelope = {"job": "j", "site": "jfk", "epoch": epoch, "serial": 1, "stored_at": "2026-01-01T00:00:20Z"}
    values = {"departures": body["count"]}
    return envelope | {"window": bounds, "key": {"device": body["device"]}, "values": values}


def test_output_when_of_a_towpath_job_then_window_key_and_epoch_are_known(folder: Path) -> None:
    options = ("--rule", "window-count", *WINDOW, "--result-field", "departures")
    results = [towpath_result(body) for body in COUNTS]
    assert check(folder, results, *options)[1] == {}
    results[2] = towpath_result(COUNTS[2], epoch=2)
    results.append(towpath_result(COUNTS[0], epoch=1))
    assert check(folder, results, *options)[1] == {"duplicated": 1, "stale_owner": 1}


def test_truth_when_given_then_results_are_known_by_identity_or_by_all_they_have(folder: Path) -> None:
    truth = lines(folder / "truth.jsonl", COUNTS)
    known_by = ("--identity", "window_start,device")
    off = [COUNTS[0], COUNTS[1] | {"count": 9}, COUNTS[2]]
    assert check(folder, COUNTS, "--truth", truth)[1] == {}
    assert check(folder, off, "--truth", truth, *known_by)[1] == {"wrong": 1}
    assert check(folder, off, "--truth", truth)[1] == {"lost": 1, "unexpected": 1}
    assert check(folder, [*COUNTS, COUNTS[0]], "--truth", truth)[1] == {"duplicated": 1}


def test_events_when_equal_and_without_identity_then_each_must_come_out(folder: Path) -> None:
    equal = [{"word": "a"}, {"word": "a"}]
    assert check(folder, equal, "--rule", "pass-through", events=equal)[1] == {}
    assert check(folder, equal[:1], "--rule", "pass-through", events=equal)[1] == {"lost": 1}
    assert check(folder, [*equal, *equal], "--rule", "pass-through", events=equal)[1] == {"duplicated": 2}


def test_marks_when_named_then_say_how_plain_results_came(folder: Path) -> None:
    marked = [
        body | {"e": epoch, "n": n} for body, epoch, n in zip(COUNTS, (1, 2, 1), (1, 2, 2), strict=True)
    ]
    options = ("--rule", "window-count", *WINDOW, "--epoch-field", "e", "--offset-field", "n")
    assert check(folder, marked, *options)[1] == {"stale_owner": 1, "nonmonotonic": 1}
    result, found = check(folder, marked, *options, "--allow", "stale_owner", "--allow", "nonmonotonic")
    assert (result.exit_code, found) == (0, {})


def test_windows_when_the_watermark_has_not_closed_them_then_need_not_have_come(folder: Path) -> None:
    options = ("--rule", "window-count", *WINDOW)
    assert check(folder, COUNTS[:2], *options)[1] == {"lost": 1}
    assert check(folder, COUNTS[:2], *options, "--watermark-s", "0")[1] == {}
    assert check(folder, COUNTS[1:2], *options, "--watermark-s", "0")[1] == {"lost": 1}


def test_log_when_it_has_what_did_not_come_then_that_is_unseen_and_not_lost(folder: Path) -> None:
    log = lines(folder / "log.jsonl", COUNTS[:2])
    result, found = check(folder, COUNTS[:1], "--rule", "window-count", *WINDOW, "--log", log)
    assert (result.exit_code, found) == (1, {"lost": 1, "unseen": 1})


@pytest.mark.parametrize(
    ("events", "options", "said"),
    [
        (
            [*EVENTS, "{"],
            ("--rule", "pass-through"),
            ["line 5", "field input", "JSON object a line"],
        ),
        (EVENTS, ("--rule", "magic"), ["field rule = 'magic'", "window-count"]),
        (EVENTS, ("--rule", "window-count"), ["field size_s", "seconds"]),
        (EVENTS, ("--rule", "filter"), ["field where"]),
        (
            EVENTS,
            ("--rule", "filter", "--where", "open('x')"),
            ["field where", "in.jsonl: line 1", "allowed: CEL"],
        ),
        (EVENTS, ("--rule", "running-count", "--key", "devcie"), ["in.jsonl", "field devcie", "device"]),
        (
            [EVENTS[0], EVENTS[1] | {"at": "soon"}],
            ("--rule", "window-count", *WINDOW),
            ["in.jsonl: line 2", "field at", "'soon'", "ISO 8601"],
        ),
        (
            [EVENTS[0], EVENTS[1] | {"level": "5"}],
            ("--rule", "window-sum", *VALUE),
            ["in.jsonl: line 2", "field level", "allowed: a number"],
        ),
        (EVENTS, ("--rule", "pass-through", "--allow", "lots"), ["field allow = 'lots'", "duplicated"]),
        (EVENTS, ("--rule", "pass-through", "--truth", "x.jsonl"), ["either --rule or --truth"]),
        (EVENTS, ("--rule", "pass-through", "--log", "no/such.jsonl"), ["field log", "no/such.jsonl"]),
    ],
)
def test_input_when_it_cannot_be_used_then_one_line_says_where_and_what_is_allowed_and_the_exit_code_is_2(
    folder: Path, events: Any, options: tuple[str, ...], said: list[str]
) -> None:
    fed, out = lines(folder / "in.jsonl", events), lines(folder / "out.jsonl", COUNTS)
    result = CliRunner().invoke(app, ["check", "--input", fed, "--output", out, *options])
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.count("\n") == 1
    for text in said:
        assert text in result.stderr


@pytest.mark.parametrize("text", ["02139", "1_000", "12e4", "1e400", "-", "٣"])
def test_csv_when_a_cell_only_resembles_a_number_then_it_stays_text(folder: Path, text: str) -> None:
    fed = lines(folder / "in.csv", ["id,device", f"1,{text}"])
    out = [{"id": 1, "device": text}]
    result, found = check(folder, out, "--rule", "pass-through", "--identity", "id", "--input", fed)
    assert (result.exit_code, found) == (0, {}), result.output


@pytest.mark.parametrize(("text", "number"), [("1e-05", 0.00001), (".5", 0.5), ("-3", -3), ("1.5E3", 1500)])
def test_csv_when_a_cell_is_a_number_then_it_counts_as_one(folder: Path, text: str, number: float) -> None:
    fed = lines(folder / "in.csv", ["id,device", f"1,{text}"])
    out = [{"id": 1, "device": number}]
    result, found = check(folder, out, "--rule", "pass-through", "--identity", "id", "--input", fed)
    assert (result.exit_code, found) == (0, {}), result.output


TOPIC = ("check", "departures/hourly", "--site", "jfk")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((*TOPIC, "--expected", "e.jsonl", "--stored"), "--stored"),
        ((*TOPIC, "--expected", "e.jsonl", "--record", "r.jsonl"), "--record"),
        ((*TOPIC, "--against", "input", "--limit", "3"), "--limit"),
        ((*TOPIC, "--truth", "t.jsonl", "--until-complete"), "--until-complete"),
        (("check", "--output", "o.jsonl", "--truth", "t.jsonl", "--site", "jfk"), "--site"),
    ],
)
def test_option_when_it_would_be_ignored_then_is_refused(arguments: tuple[str, ...], named: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, f"{named} has no meaning here" in result.output) == (BAD_INPUT, True)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--rule", "pass-through", "--input", "typo.jsonl"), "input"),
        (("--truth", "typo.jsonl"), "truth"),
        (("--truth", "{truth}", "--record", "none/kept.jsonl"), "record"),
    ],
)
def test_file_when_it_cannot_be_used_then_is_told_before_results_are_collected(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], field: str
) -> None:
    monkeypatch.chdir(folder)
    truth = lines(folder / "truth.jsonl", EVENTS)
    monkeypatch.setattr(check_files, "_collected", None)  # It would end with another error.
    result = CliRunner().invoke(app, [*TOPIC, *(each.format(truth=truth) for each in options)])
    assert (result.exit_code, f"field {field} =" in result.output) == (BAD_INPUT, True)


def test_expected_results_when_a_text_has_a_line_separator_then_are_read(folder: Path) -> None:
    body = {"job": "a", "serial": 1, "values": {"place": "one\u2028two"}}
    path = folder / "expected.jsonl"
    path.write_text(json.dumps(body, ensure_ascii=False) + "\n", encoding="utf-8")
    assert len(read_expected(path)) == 1


def test_csv_when_a_row_is_short_then_its_line_is_named(folder: Path) -> None:
    fed, out = lines(folder / "in.csv", ["id,device", "1,a", "2"]), lines(folder / "out.jsonl", COUNTS)
    result = CliRunner().invoke(app, ["check", "--input", fed, "--output", out, "--rule", "pass-through"])
    assert result.exit_code == 2
    assert "line 3: 1 cells, and 2 in the header" in result.stderr


KNOWN = {"delay": 0, "carrier": "", "x": 0, "zero": 0, "place": {"site": ""}, "class": 0, "late": False}


@pytest.mark.parametrize(
    ("text", "event", "holds"),
    [
        ("delay > 15 && carrier != 'AA'", {"delay": 16, "carrier": "UA"}, True),
        ("delay > 15 && carrier == 'AA'", {"delay": 16, "carrier": "UA"}, False),
        ("delay > 15", {"delay": 15.5}, True),
        ("delay > 15", {"delay": None}, False),
        ("!(delay > 15)", {}, False),
        ("delay == null || delay > 15", {}, True),
        ("delay != null", {"delay": 0}, True),
        ("delay > 15 || carrier == 'UA'", {"carrier": "UA"}, True),
        ("carrier in ['AA', 'UA']", {"carrier": "UA"}, True),
        ("!(carrier in ['AA'])", {"carrier": "UA"}, True),
        ("(delay + 5) * 2 >= -x", {"delay": 1, "x": 3}, True),
        ('place.site == "it\'s"', {"place": {"site": "it's"}}, True),
        ("place.site == 'a'", {"place": {}}, False),
        ("class == 1", {"class": 1}, True),
        ("late", {"late": True}, True),
        ("['U', 'D'].exists(first, carrier.startsWith(first))", {"carrier": "UA"}, True),
    ],
)
def test_condition_when_asked_then_holds_only_if_no_missing_value_leaves_it_open(
    text: str, event: dict[str, Any], holds: bool
) -> None:
    assert (1 in rows(text, KNOWN, event)) is holds


def rows(text: str, *events: Mapping[str, Any]) -> list[int]:
    """Return the rows of events for which the condition holds."""
    lines = [(number, json.dumps(event).encode()) for number, event in enumerate(events, start=1)]
    return holding(text, inputs_of(lines, "in.jsonl")).tolist()


@pytest.mark.parametrize("text", ["", "delay >", "a.b(", "delay = 15", "delay > 15 and x <> 1", "'a' 1"])
def test_condition_when_it_is_none_then_is_refused(text: str) -> None:
    with pytest.raises(TowpathError) as refused:
        rows(text, KNOWN)
    assert refused.value.detail.field == "where"


@pytest.mark.parametrize("text", ["delay > 15", "delay + 5", "delay / zero > 1", "open(delay)"])
def test_condition_when_the_values_of_an_event_do_not_fit_it_then_its_line_is_named(text: str) -> None:
    with pytest.raises(TowpathError, match=r"in.jsonl: line 2: the condition cannot be computed") as refused:
        rows(text, KNOWN | {"delay": None}, {"delay": "16", "zero": 0})
    assert refused.value.detail.field == "where"


def test_condition_when_no_event_has_its_field_then_the_field_is_named() -> None:
    with pytest.raises(TowpathError, match="no line has this field") as refused:
        rows("dealy > 15", KNOWN)
    assert refused.value.detail.field == "dealy"
