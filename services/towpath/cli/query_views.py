"""Show queries and their shared plan to people, and as JSON."""

from __future__ import annotations

from typing import Any

from rich.tree import Tree

from towpath.cli.output import print_json, print_rich, print_table
from towpath.queries.compilation import Compiled
from towpath.queries.planning import SharedPlan
from towpath.queries.program import QueryProgram
from towpath.queries.tree import TimeWindow, Window
from towpath.queries.wording import argument_text

ENVELOPE_BYTES, PART_BYTES, KEY_BYTES, VALUE_BYTES = 290, 36, 32, 62
"""JSON of a pane: what each has, a number, a key, and one value of a series."""


def print_queries(found: Compiled, *, as_json: bool) -> None:
    """Print the queries of a text."""
    rows = [
        (
            query.name,
            moments(query.every),
            ", ".join(key.name for key in query.by) or "-",
            ", ".join(_reads(found, query)),
        )
        for query in found.sites[0].plan.program.queries
    ]
    if as_json:
        return print_json([dict(zip(("query", "moments", "by", "reads"), row, strict=True)) for row in rows])
    print_table(("query", "moments", "by", "reads"), rows, nothing="no queries")


def print_plan(found: Compiled, *, as_json: bool) -> None:
    """Print what is computed where, and for which queries."""
    if as_json:
        return print_json(_plan(found))
    asked = found.asked
    tree = Tree(f"[bold]{asked.topic}[/] at {asked.site}: {len(found.meaning.queries)} queries")
    for query in found.sites[0].plan.program.queries:
        tree.add(f"{query.name}: {moments(query.every)}" + _by(query))
    for at in found.sites:
        where = (
            "the same site"
            if at.site == asked.site
            else f"about {_link_bytes(at.plan):,.0f} bytes per key and hour"
        )
        branch = tree.add(f"[bold]{at.site}[/]: panes of {_seconds(at.plan.program.pane_micros)} ({where})")
        for kept, names in at.plan.served.items():
            branch.add(
                f"{kept.part} of {argument_text(at.plan.arguments[kept.argument])} → {', '.join(names)}"
            )
        branch.add(f"topics: {', '.join(at.topics)}")
    if found.meaning.is_thinned:
        tree.add("a part of the events is read: all queries are content with estimates")
    print_rich(tree)


def moments(every: Window | None) -> str:
    """Say when a query answers."""
    if every is None:
        return "each event"
    return (
        f"every {_seconds(every.micros)}" if isinstance(every, TimeWindow) else f"every {every.events} events"
    )


def _plan(found: Compiled) -> dict[str, Any]:
    return {
        "at": found.asked.site,
        "topic": found.asked.topic,
        "queries": [query.name for query in found.meaning.queries],
        "sites": [
            {
                "site": at.site,
                "topics": at.topics,
                "pane_s": at.plan.program.pane_micros / 1e6,
                "bytes_per_key_and_hour": 0 if at.site == found.asked.site else round(_link_bytes(at.plan)),
                "parts": [
                    {
                        "part": str(kept.part),
                        "of": argument_text(at.plan.arguments[kept.argument]),
                        "serves": names,
                    }
                    for kept, names in at.plan.served.items()
                ],
            }
            for at in found.sites
        ],
        "jobs": found.pipeline.jobs,
    }


def _reads(found: Compiled, query: QueryProgram) -> list[str]:
    asked = next(one for one in found.meaning.queries if one.name == query.name)
    names = [name for argument in asked.arguments for name in (argument.streams or (argument.insight or "",))]
    return [*dict.fromkeys(names)]


def _link_bytes(plan: SharedPlan) -> float:
    """Expected bytes in an hour for each key that has events all the time."""
    pane = ENVELOPE_BYTES + KEY_BYTES * len(plan.keys)
    for kept in plan.kept:
        pane += PART_BYTES if kept.part != "series" else VALUE_BYTES
    return pane * 3_600e6 / plan.program.pane_micros


def _by(query: QueryProgram) -> str:
    return f", by {', '.join(key.name for key in query.by)}" if query.by else ""


def _seconds(micros: int) -> str:
    return f"{micros / 1e6:g} s"
