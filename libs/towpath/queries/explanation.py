"""Explain a compiled text: its queries, what is computed where, and which queries share it."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.contracts.pipeline import PolicyName
from towpath.contracts.query import QueryExplanation, QuerySummary, SharedPart, SiteShare
from towpath.queries.compilation import Compiled, SitePlan
from towpath.queries.meaning import Query, QuerySet
from towpath.queries.planning import SharedPlan
from towpath.queries.tree import TimeWindow, Window
from towpath.queries.wording import argument_text

_ENVELOPE_BYTES, _PART_BYTES, _KEY_BYTES, _VALUE_BYTES = 290, 36, 32, 62
"""JSON of a pane: what each has, a number, a key, and one value of a series."""


def summaries(meaning: QuerySet) -> list[QuerySummary]:
    """Return the queries of a text."""
    return [
        QuerySummary(
            query=query.name,
            moments=_moments(query.every),
            by=[grouping.name for grouping in query.by],
            reads=_reads(query),
        )
        for query in meaning.queries
    ]


def explanation(
    found: Compiled, added: Sequence[str] = (), begin_again: Sequence[str] = ()
) -> QueryExplanation:
    """Return what is computed where, and for which queries.

    Of a text that joins a running one, `added` has its queries that are new, and `begin_again` the jobs that
    would lose their state.
    """
    scheduler = found.meaning.scheduler
    made_at = None if scheduler else found.asked.site
    return QueryExplanation(
        at=found.asked.site,
        topic=found.asked.topic,
        scheduler=PolicyName(scheduler) if scheduler else None,
        queries=summaries(found.meaning),
        sites=[_share(at, crosses=at.site != made_at) for at in found.sites],
        thinned=found.meaning.is_thinned,
        jobs=found.pipeline.jobs,
        added=[*added],
        begin_again=[*begin_again],
    )


def _share(at: SitePlan, *, crosses: bool) -> SiteShare:
    return SiteShare(
        site=at.site,
        topics=[*at.topics],
        pane_s=at.plan.program.pane_micros / 1e6,
        bytes_per_key_and_hour=round(_link_bytes(at.plan)) if crosses else 0,
        parts=[
            SharedPart(part=kept.part, of=argument_text(at.plan.arguments[kept.argument]), serves=[*names])
            for kept, names in at.plan.served.items()
        ],
    )


def _reads(query: Query) -> list[str]:
    names = [name for argument in query.arguments for name in (argument.streams or (argument.insight or "",))]
    return [*dict.fromkeys(names)]


def _moments(every: Window | None) -> str:
    if every is None:
        return "each event"
    if isinstance(every, TimeWindow):
        return f"every {every.micros / 1e6:g} s"
    return f"every {every.events} events"


def _link_bytes(plan: SharedPlan) -> float:
    """Expected bytes in an hour for each key that has events all the time."""
    pane = _ENVELOPE_BYTES + _KEY_BYTES * len(plan.keys)
    for kept in plan.kept:
        pane += _PART_BYTES if kept.part != "series" else _VALUE_BYTES
    return pane * 3_600e6 / plan.program.pane_micros
