"""Errors of source and sink are recognised in what Spark makes of them."""

from __future__ import annotations

import traceback

import pytest

from towpath.streams.failures import EventsLost, Fenced, Unpublished, failure_in, without_history

ERRORS = [
    Fenced("sink.jfk.jfk.hourly.1 is refused"),
    EventsLost("IN", 1, 2),
    Unpublished("3 results not stored"),
]


def as_spark_tells_it(error: Exception) -> str:
    trace = "".join(traceback.format_exception(error))
    return f"[STREAM_FAILED] Query [id = 1] terminated with exception:\n{trace}\n\tat org.apache.spark.Stream"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_failure_when_spark_wraps_it_then_is_found_with_its_message(error: RuntimeError) -> None:
    failure = failure_in(as_spark_tells_it(error))

    assert failure is not None
    assert failure.kind is type(error)
    assert failure.text.startswith(f"{type(error).__name__}: ")
    assert failure.text.endswith(str(error))


def test_failure_when_the_text_is_a_planners_then_events_lost_is_found_in_its_message() -> None:
    failure = failure_in(str(EventsLost("IN", 1, 2)))

    assert failure is not None
    assert (failure.kind, failure.text) == (
        EventsLost,
        "EventsLost: serials 1..2 of IN are no longer kept",
    )


def test_failure_when_several_are_told_of_then_the_gravest_is_found() -> None:
    failure = failure_in("\n".join(as_spark_tells_it(error) for error in reversed(ERRORS)))

    assert failure is not None
    assert failure.kind is Fenced


def test_failure_when_the_text_is_of_another_error_then_none_is_found() -> None:
    assert failure_in("ValueError: the lock is Fenced") is None


def test_error_when_it_goes_to_spark_then_leaves_its_history_behind() -> None:
    error = Unpublished("3 results not stored")
    error.__cause__ = TimeoutError("a" * 10_000)

    told = without_history(error)

    assert (type(told), str(told), told.__cause__) == (Unpublished, str(error), None)
