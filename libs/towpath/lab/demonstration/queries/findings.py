"""Find out what a run has shown, from the answers that came: pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from towpath.checker.identity import utc
from towpath.checker.observation import ReceivedMessage
from towpath.lab.demonstration.queries.report import Gap, SampledReport, SharedNumber, SitePart
from towpath.lab.demonstration.queries.texts import MOVED_QUERY
from towpath.lab.demonstration.queries.truth import AskedEvents
from towpath.lab.harness.answers import query_of
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.report import MoveReport
from towpath.queries.compilation import Compiled
from towpath.queries.tree import Metric
from towpath.queries.wording import argument_text
from towpath.streams.sampling import sampled

AFTER_MOVE_S = 4.0
"""Seconds after a move in which a gap counts as its own. The next move waits for so long."""

Course = list[tuple[float, float]]
"""When answers came, Unix seconds, and their values."""


@dataclass(frozen=True)
class Heard:
    """A text that ran, what its queries could see, and what it answered."""

    compiled: Compiled
    asked: AskedEvents
    seen: Sequence[ReceivedMessage]

    def of(self, query: str) -> list[ReceivedMessage]:
        """Return the answers of one query, in order of receipt."""
        return [each for each in self.seen if query_of(each) == query]


def parts_of_plan(compiled: Compiled) -> list[SitePart]:
    """Return which sites keep which numbers for which queries."""
    return [
        SitePart(
            site=at.site,
            pane_s=at.plan.program.pane_micros / 1e6,
            kept=[
                SharedNumber(
                    part=str(kept.part),
                    of=argument_text(at.plan.arguments[kept.argument]),
                    serves=[*names],
                )
                for kept, names in at.plan.served.items()
            ],
        )
        for at in compiled.sites
    ]


def gap_of(came: Sequence[float], move: MoveReport) -> Gap | None:
    """Return the longest time without an answer before a move, and around it; None if it has not ended.

    Times are Unix seconds.
    """
    if move.begun_at is None or move.ended_at is None:
        return None
    begin, end = move.begun_at, move.ended_at + AFTER_MOVE_S
    gaps = [*pairwise(sorted(came))]
    before = [b - a for a, b in gaps if a > 2 * begin - end and b <= begin]
    around = [b - a for a, b in gaps if b > begin and a < end]
    return Gap(
        job=move.job,
        before_s=round(max(before, default=0.0), 2),
        around_s=round(max(around, default=0.0), 2),
    )


def arrivals_of(seen: Sequence[ReceivedMessage]) -> list[ReceivedResult]:
    """Return when each answer came, and where it was computed."""
    found = []
    for each in seen:
        body = each.body
        if body:
            latency_s = each.received_at - utc(body["stored_at"]).timestamp()
            found.append(ReceivedResult(each.received_at, latency_s, body["site"]))
    return found


def courses_of(heard: Heard) -> dict[str, Course]:
    """Return the answers about each airport over time, of the query that the picture shows."""
    courses: defaultdict[str, Course] = defaultdict(list)
    for each in heard.of(MOVED_QUERY):
        body = each.body
        courses[body["key"]["site"]].append((each.received_at, float(body["values"]["value"])))
    return {**courses}


def sampled_of(heard: Heard) -> SampledReport:
    """Return how many events the query on a sample computes with, of all that have its value."""
    [query] = [each for each in heard.compiled.meaning.queries if each.options.sample is not None]
    [argument] = query.arguments
    assert isinstance(argument.value, Metric)
    assert query.options.sample is not None
    serials = [e.serial for e in heard.asked.events if e.fields.get(argument.value.name) is not None]
    read = int(np.count_nonzero(sampled(serials, query.options.sample)))
    return SampledReport(query=query.name, events=len(serials), read=read)
