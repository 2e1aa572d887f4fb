"""The results of a job: one JSON object per result, in one envelope for every operator."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from towpath.contracts.message import Model


class WindowBounds(Model):
    """A window, half open: `start` belongs to it, `end` does not."""

    start: datetime
    end: datetime


class Result(Model):
    """A result. `(job, serial)`, or `(job, window, key)`, or `(job, after, through, key)`, or the operator's
    `identity`, identifies it."""

    job: str
    site: str
    """Where it was computed."""
    epoch: int
    serial: int
    """Serial number of the newest event in it, in the input named by `input`. Of windows over several
    inputs the largest serial number, whichever input has it."""
    input: str | None = None
    """Input of `serial`, for jobs with several inputs. Windows have none: theirs may change while one is
    open."""
    stored_at: datetime
    """When the newest event in it was stored by its site: the start of every latency figure."""
    window: WindowBounds | None = None
    after: int | None = None
    """Of a processing-time window: it holds the events with `after` < serial number ≤ `through`."""
    through: int | None = None
    """See `after`. The range is the whole window's, the same for each key."""
    key: dict[str, Any] | None = None
    count: int = 1
    """Number of events it stands for."""
    values: dict[str, Any]


class Rejected(Model):
    """An event on the dead-letter topic."""

    job: str
    serial: int
    input: str
    stored_at: datetime
    reason: str
    """Which field, and what was wrong with it."""
    step: str | None = None
    """Of a chain: the step that rejected it."""
    event: str
    """The event as it came. In a chain after a `window` or `python` step: what that step made, as JSON."""
