"""A rule: how a pipeline turns its events into results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from towpath.checker.expectation import Expectation
from towpath.checker.history import History
from towpath.checker.moments import TimeUnit


@dataclass(frozen=True)
class Terms:
    """What the user says about events and results. Fields of results have the names that events have, unless
    another is given."""

    key: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()
    """Fields that say which event it is; without them an event is known by all it has."""
    compare: tuple[str, ...] | None = None
    """Fields that must come out unchanged; None: all."""
    time_field: str | None = None
    """Event time: ISO 8601 texts, or numbers of `time_unit`."""
    time_unit: TimeUnit = TimeUnit.SECONDS
    size_s: float | None = None
    """Length of tumbling windows, seconds. They are aligned to 1970-01-01 UTC."""
    value_field: str | None = None
    """The number that is summed up."""
    result_field: str | None = None
    """Where results have the number; None: a field called as the rule's last word."""
    where: str | None = None
    window_start: str = "window_start"
    window_end: str | None = None
    """Given: results are known by the end of their window, and need not say when it starts."""
    watermark_s: float | None = None
    """Given: windows that end later than the newest event less so many seconds need not have come."""
    text_field: str = "text"
    word_field: str = "word"
    serial_field: str | None = None
    """Serial number of an event; None: the number of its line."""


Fields = Callable[[Terms], list[str] | None]
"""The fields that are read; None: all."""


@dataclass(frozen=True)
class PipelineRule:
    """How results follow from events."""

    needs: tuple[str, ...]
    """Terms that must be given."""
    of_events: Fields
    of_results: Fields
    expected: Callable[[Terms, History, History], Expectation]
    """From events, and what came, to what should come. Of what came only that is used which is the job's to
    choose, such as where ranges end. Raises `TowpathError` (invalid) for an event that cannot be used,
    naming file, line and field."""
