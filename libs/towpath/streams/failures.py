"""Errors of the Spark source and sink, and their way through Spark.

Spark passes an error of a Python source or sink on as text: the class, the message and a trace, wrapped in a
trace of its own. The engine finds these errors in that text by their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from towpath.contracts.data_plane import Offset


class Fenced(RuntimeError):
    """The output stream accepts a later epoch, because another owner has the job. Or ours was never set."""


class Unpublished(RuntimeError):
    """The output stream could not be reached in time, or refused."""


class EventsLost(RuntimeError):
    """Serial numbers a job still had to read are no longer kept."""

    def __init__(self, stream: str, first: int, last: int) -> None:
        # With its name: a planner answers with the message alone.
        super().__init__(f"{_name(type(self))} serials {first}..{last} of {stream} are no longer kept")
        self.stream, self.first, self.last = stream, first, last


class EventsRenumbered(RuntimeError):
    """A stream began again, or lost its end: its serial numbers are not those that a job has processed."""

    def __init__(self, stream: str, processed: Offset, first: int, last: int, there: str = "") -> None:
        """`there` is when the stream stored the event that has the number of the last one processed."""
        was = f" (stored {processed.stored_at})" if processed.stored_at else ""
        now = f", and {processed.serial} is another event (stored {there})" if there else ""
        super().__init__(
            f"{_name(type(self))} the job has processed {stream} up to serial {processed.serial}{was}, and"
            f" the stream has begun again since, or lost its end: it has serials {first}..{last}{now}. Go on"
            " with `towpath resume JOB --from earliest` (all that it has not read), `--from now` (new ones),"
            " or `--from TIME`"
        )


@dataclass(frozen=True)
class Failure:
    """An error of source or sink that was found in Spark's text."""

    kind: type[RuntimeError]
    text: str
    """One line that begins with the error's name."""


def without_history(error: Fenced | Unpublished) -> Fenced | Unpublished:
    """Return the same error for Spark, without the errors behind it.

    Spark matches the whole text of an error with a regular expression, and a Python trace of some thousand
    characters overflows its stack.
    """
    return type(error)(str(error))


def failure_in(text: str) -> Failure | None:
    """Return the gravest error of source or sink in Spark's text; None if there is none."""
    for kind in _GRAVEST_FIRST:
        for line in text.splitlines():
            if _name(kind) in line:
                return Failure(kind, line[line.index(_name(kind)) :])
    return None


def _name(kind: type[RuntimeError]) -> str:
    return f"{kind.__name__}:"


_GRAVEST_FIRST: Final = (Fenced, EventsRenumbered, EventsLost, Unpublished)
