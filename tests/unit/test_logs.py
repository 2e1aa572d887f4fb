"""Every line of a log says what it is about, for people and for programs."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from towpath.telemetry.logs import _Json, _TextFormatter, about, start_logging
from towpath.telemetry.tracing import continuing, span_of, trace_of, traceparent_of

TRACE = trace_of("t")


def line(formatter: logging.Formatter, **more: object) -> str:
    record = logging.LogRecord("towpath.x", logging.INFO, __file__, 1, "moving %s", ("j",), None)
    record.__dict__.update(more)
    return formatter.format(record)


def test_line_when_nothing_is_known_then_is_plain_text() -> None:
    assert line(_TextFormatter(None)).endswith("INFO towpath.x: moving j")


def test_line_when_work_belongs_to_an_operation_in_a_trace_then_names_both() -> None:
    with about(job="j", operation="m1"), continuing(traceparent_of(TRACE, span_of("s"))), about(job=None):
        assert line(_TextFormatter("jfk")).endswith(f"moving j [site=jfk job=j operation=m1 trace={TRACE}]")
    assert line(_TextFormatter("jfk")).endswith("moving j [site=jfk]")


def test_line_when_json_is_asked_for_then_is_one_object_with_the_traceback() -> None:
    try:
        raise ValueError("bad")
    except ValueError:
        failure = sys.exc_info()
    with about(job="j"):
        text = line(_Json("jfk"), exc_info=failure)
    found = json.loads(text)
    assert "\n" not in text
    assert (found["message"], found["level"], found["site"], found["job"]) == ("moving j", "INFO", "jfk", "j")
    assert "ValueError: bad" in found["exception"]


@pytest.mark.parametrize(
    ("wanted", "kind"), [("json", _Json), ("", _TextFormatter), ("text", _TextFormatter)]
)
def test_logging_when_the_environment_asks_for_a_form_then_it_is_that(
    monkeypatch: pytest.MonkeyPatch, wanted: str, kind: type[logging.Formatter]
) -> None:
    given: list[logging.Handler] = []
    monkeypatch.setenv("TOWPATH_LOG", wanted)
    monkeypatch.setattr(logging, "basicConfig", lambda **options: given.extend(options["handlers"]))
    start_logging("jfk")
    assert isinstance(given[0].formatter, kind)
