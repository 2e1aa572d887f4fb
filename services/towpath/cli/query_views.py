"""Show queries and their shared plan to people, and as JSON."""

from __future__ import annotations

from rich.markup import escape
from rich.tree import Tree

from towpath.cli.output import print_json, print_rich, print_table
from towpath.contracts.query import QueryExplanation, QuerySummary


def print_queries(found: list[QuerySummary], *, as_json: bool) -> None:
    """Print the queries of a text."""
    if as_json:
        return print_json([each.model_dump(mode="json") for each in found])
    rows = [(each.query, each.moments, ", ".join(each.by) or "-", ", ".join(each.reads)) for each in found]
    print_table(("query", "moments", "by", "reads"), rows, nothing="no queries")


def print_plan(plan: QueryExplanation, *, as_json: bool) -> None:
    """Print what is computed where, and for which queries."""
    if as_json:
        return print_json(plan)
    tree = Tree(f"[bold]{plan.topic}[/] at {plan.at}: {len(plan.queries)} queries")
    for query in plan.queries:
        new = " (new)" if query.query in plan.added else ""
        by = f", by {', '.join(query.by)}" if query.by else ""
        tree.add(escape(f"{query.query}{new}: {query.moments}{by}"))
    for at in plan.sites:
        crossing = f"about {at.bytes_per_key_and_hour:,} bytes per key and hour"
        where = "the same site" if plan.scheduler is None and at.site == plan.at else crossing
        branch = tree.add(f"[bold]{at.site}[/]: panes of {at.pane_s:g} s ({where})")
        for part in at.parts:
            branch.add(escape(f"{part.part} of {part.of} → {', '.join(part.serves)}"))
        branch.add(f"topics: {', '.join(at.topics)}")
    found = (
        "the site that asks" if plan.scheduler is None else f"a site that the policy {plan.scheduler} finds"
    )
    tree.add(f"answers are made at {found}")
    if plan.added:
        tree.add(_sharing(plan))
    for job in plan.begin_again:
        tree.add(f"{job} would lose its state, and needs --drop-state {job}")
    if plan.thinned:
        tree.add("a part of the events is read: all queries are content with estimates")
    print_rich(tree)


def _sharing(plan: QueryExplanation) -> str:
    """Return how much of the panes new queries share with those that run."""
    added, used = {*plan.added}, [{*part.serves} for at in plan.sites for part in at.parts]
    needed = [serves for serves in used if serves & added]
    shared = sum(not serves <= added for serves in needed)
    return f"of {len(needed)} number(s) of panes that the new queries need, {shared} are kept already"
