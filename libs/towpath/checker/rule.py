"""A rule describes the way in which a pipeline turns its events into results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from towpath.checker.expectation import Expectation
from towpath.checker.history import History
from towpath.checker.moments import TimeUnit


@dataclass(frozen=True)
class Terms:
    """The user's description of events and results.

    Fields of results have the same names as those of events, unless another name is given.
    """

    key: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()
    """Fields that identify an event. Without them all its fields do."""
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
    """Field of results with the number; None: it has the name of the rule's last word."""
    where: str | None = None
    window_start: str = "window_start"
    window_end: str | None = None
    """If given, results are known by the end of their window, and need not have its start."""
    watermark_s: float | None = None
    """If given, windows that end less than so many seconds before the newest event need not have come."""
    text_field: str = "text"
    word_field: str = "word"
    serial_field: str | None = None
    """Serial number of an event; None: the number of its line."""


Fields = Callable[[Terms], list[str] | None]
"""Returns the fields that are read; None: all."""


@dataclass(frozen=True)
class PipelineRule:
    """Derives the expected results from events."""

    needs: tuple[str, ...]
    """Terms that must be given."""
    of_events: Fields
    of_results: Fields
    expected: Callable[[Terms, History, History], Expectation]
    """Returns the expected results for events and received results. From the received ones it takes only what
    the job may choose, such as the ends of ranges. Raises `TowpathError` (invalid) with file, line and field
    for an event that cannot be used."""
