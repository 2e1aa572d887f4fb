"""`towpath place`: propose where jobs should be, and move them there."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from towpath.cli.changes import DEFAULT_DEADLINE_S, carry_out
from towpath.cli.connection import ask
from towpath.cli.deploying import Within
from towpath.cli.output import print_json, print_rich, say, table_of, working
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.commands import MigrateJob
from towpath.contracts.placement import JobPlace, PlacementFigures, PlacementProposal, ProposePlacement
from towpath.reports.costs import amount, seconds

PROPOSE_S = 60.0
"""Time for a proposal: a large mesh takes seconds."""


def place(
    context: typer.Context,
    policy: Annotated[
        str, typer.Option(help="baseline, performance, quality or energy: docs/placement.md compares them.")
    ] = "performance",
    weight: Annotated[
        float | None, typer.Option(min=0, max=1, help="Of energy: 0 is latency alone, 1 is power alone.")
    ] = None,
    beta: Annotated[float | None, typer.Option(min=0, help="Of quality: weight of checked data.")] = None,
    job: Annotated[list[str] | None, typer.Option(help="Move only this one; can be repeated.")] = None,
    avoid: Annotated[list[str] | None, typer.Option(metavar="SITE", help="Leave this site empty.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the proposal.")] = False,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Move jobs to where a policy wants them, one after another, and never overload a site on the way.

    Example: `towpath place --policy performance --dry-run`
    """
    home = home_of(context)
    question = ProposePlacement(policy=policy, weight=weight, beta=beta, jobs=job or None, avoid=avoid or [])
    with working("looking at the mesh …"):
        found = asyncio.run(ask(home, question, deadline_s=PROPOSE_S))
    if dry_run and as_json:
        return print_json(found)
    if not as_json:
        _show(found)
    if dry_run or not found.moves:
        return print_json([]) if as_json else None
    commands = [MigrateJob(job=move.job, to=move.target) for move in found.moves]
    asyncio.run(carry_out(home, commands, within_s=within_s, as_json=as_json))
    if not as_json:
        undo = " && ".join(f"towpath migrate {move.job} --to {move.origin}" for move in reversed(found.moves))
        say(f"to undo: {undo}")


def _show(found: PlacementProposal) -> None:
    rows = [
        (each.job, each.current, _other(each), f"{each.cores:.2f}", each.stays or "") for each in found.jobs
    ]
    print_rich(table_of(("job", "is at", "should be at", "cores", "stays because"), rows))
    titles = ("", "latency", "power", "over links", "checked", "lacking")
    print_rich(table_of(titles, [_figures("now", found.current), _figures(found.policy, found.proposed)]))
    for number, move in enumerate(found.moves, 1):
        passing = ", makes room" if move.temporary else ""
        takes = seconds(move.transfer_s) or "no link"
        cost = f"{amount(int(move.state_bytes))} of state, {takes}"
        print(f"{number}. {move.job}: {move.origin} → {move.target} ({cost}{passing})")
    if not found.moves:
        print("all jobs are where they should be")


def _other(place: JobPlace) -> str:
    return place.proposed if place.proposed != place.current else ""


def _price(per_h: float) -> str:
    return f", price {per_h:.3g}/h" if per_h else ""


def _figures(name: str, figures: PlacementFigures) -> tuple[object, ...]:
    return (
        name,
        "no link" if figures.latency_s is None else f"{1000 * figures.latency_s:.1f} ms",
        f"{figures.power_w:.1f} W",
        f"{amount(int(figures.bytes_per_s))}/s{_price(figures.link_price_per_h)}",
        f"{100 * figures.checked_share:.0f} %",
        "; ".join(figures.shortages),
    )
