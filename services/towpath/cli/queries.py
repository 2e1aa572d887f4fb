"""Commands for queries: check a text, see what its queries share, run it, and follow the answers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from towpath.bus import Bus
from towpath.cli.connection import ask, open_bus
from towpath.cli.output import print_json, print_table, say
from towpath.cli.pipeline_applying import DEFAULT_DEADLINE_S, carry_out
from towpath.cli.pipeline_files import telling, text_of
from towpath.cli.pipeline_options import DropState, Now, Wait, Within, change
from towpath.cli.query_answers import follow_answers, newest_serial
from towpath.cli.query_joining import Joining, looked, removal, sites_of
from towpath.cli.query_views import print_plan, print_queries
from towpath.cli.settings import AsJson, home_of
from towpath.composition.speck import as_name
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Model
from towpath.contracts.pipeline_commands import ApplyPipeline, DeletePipeline, ListPipelines, ShowPipeline
from towpath.contracts.query import QueryExplanation
from towpath.queries.compilation import Asked, compiled
from towpath.queries.explanation import explanation, summaries
from towpath.queries.running import all_running_queries, check_name, check_removal, running_queries

AnswerT = TypeVar("AnswerT", bound=Model)

app = typer.Typer(help="Ask questions in one line, over any number of sites, and follow the answers.")

QueryFile = Annotated[Path, typer.Argument(metavar="FILE", help="Streams and queries, in StreamSight.")]
QueryName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the running queries.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="SITE",
        help="The site that asks: answers are there. Needed without --into.",
        show_default="that of the running queries",
    ),
]
Into = Annotated[
    str | None, typer.Option("--into", metavar="NAME", help="Running queries that those of the file join.")
]
As = Annotated[
    str | None, typer.Option("--name", help="Name of the queries.", show_default="as the file is called")
]
Filled = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=TEXT", help="What stands for {NAME} in a stream; repeat for several."
    ),
]
Sites = Annotated[
    str | None, typer.Option("--sites", metavar="A,B", help="All sites there are, instead of the mesh's.")
]

_NOWHERE = "here"
"""The site that asks, where it does not matter."""


@app.command()
def check(file: QueryFile, filled: Filled = None, as_json: AsJson = False) -> None:
    """Check a text without a mesh, and list its queries.

    Example: `towpath query check examples/queries/departures.sight`
    """
    with telling(file, str):
        found = compiled(Asked(_name_of(file, None), _NOWHERE, text_of(file), _pairs(filled), [_NOWHERE]))
    print_queries(summaries(found.meaning), as_json=as_json)


@app.command()
def explain(
    context: typer.Context,
    file: QueryFile,
    at: At = None,
    into: Into = None,
    sites: Sites = None,
    filled: Filled = None,
    as_json: AsJson = False,
) -> None:
    """Print what is computed where, and which part serves which queries.

    Example: `towpath query explain examples/queries/departures.sight --at cloud --sites jfk,lga,cloud`
    """

    async def of_joined(joining: Joining) -> QueryExplanation:
        async with open_bus(home_of(context), traced=False) as bus:
            return await joining.explained(bus, known)

    known = sites.split(",") if sites else None
    if into is None:
        known = known or asyncio.run(_known_sites(context))
    with telling(file, str):
        if into is not None:
            plan = asyncio.run(of_joined(Joining(file, into, at, _pairs(filled))))
        else:
            asked = Asked(_name_of(file, None), _given(at), text_of(file), _pairs(filled), known or [])
            plan = explanation(compiled(asked))
    print_plan(plan, as_json=as_json)


@app.command()
def run(
    context: typer.Context,
    file: QueryFile,
    at: At = None,
    into: Into = None,
    name: As = None,
    filled: Filled = None,
    follow: Annotated[bool, typer.Option("--follow", help="Then follow the answers until Ctrl-C.")] = False,
    trigger_s: Annotated[
        float | None,
        typer.Option(
            "--trigger",
            min=0,
            max=3600,
            help="Least seconds between micro-batches of events.",
            show_default="a fifth of the shortest step of the answers, 1 to 10",
        ),
    ] = None,
    webhook: Annotated[
        str | None, typer.Option("--webhook", metavar="URL", help="POST each answer to this address, too.")
    ] = None,
    drop_state: DropState = None,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Run the queries of a file: new ones start, and running ones of the same name become those of the file.

    A query that stays as it is keeps what it knows. The name must not be that of another pipeline. With
    `--into` running queries go on, and those of the file join them: all share one plan.

    Example: `towpath query run examples/queries/departures.sight --at cloud`
    """

    async def command_of(bus: Bus) -> tuple[ApplyPipeline, str]:
        pairs = _pairs(filled)
        if into is not None:
            joining = Joining(file, into, at, pairs, trigger_s, webhook)
            return await joining.command(bus, drop_state or [])
        site, sites = _given(at), await sites_of(bus)
        asked = Asked(_name_of(file, name), site, text_of(file), pairs, sites, trigger_s, webhook)
        spec = compiled(asked).pipeline
        await check_name(asked.name, lambda question: looked(bus, question))
        return ApplyPipeline(spec=spec, drop_state=drop_state or []), site

    async def start() -> tuple[str, str, int]:
        async with open_bus(home_of(context)) as bus:
            with telling(file, str):
                command, site = await command_of(bus)
            # The first answers may come before the apply has ended.
            after = await newest_serial(bus, site, command.spec.name) if follow else 0
            await carry_out(bus, command, wait=wait, within_s=within_s, as_json=as_json and not follow)
            return site, command.spec.name, after

    if into is not None and name not in (None, into):
        raise _not_both("name", name, f"no --name: the queries are called {into}")
    site, running, after = asyncio.run(start())
    if not follow:
        return
    with suppress(KeyboardInterrupt):
        asyncio.run(follow_answers(home_of(context), site, running, after=after, as_json=as_json))
    say(f"the queries go on; `towpath query remove {running}` ends them")


@app.command()
def follow(
    context: typer.Context,
    name: QueryName,
    from_start: Annotated[
        bool, typer.Option("--all", help="Also the answers that are there already.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Print the answers that are there, and end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Follow the answers of running queries until Ctrl-C: the newest of each query and key.

    With `--json` every answer, one line each.

    Example: `towpath query follow departures`
    """
    home = home_of(context)
    view = asyncio.run(ask(home, ShowPipeline(pipeline=name)))
    site, after = running_queries(view).at, 0 if from_start or once else None
    with suppress(KeyboardInterrupt):
        asyncio.run(follow_answers(home, site, name, after=after, once=once, as_json=as_json))


@app.command("list")
def list_queries(context: typer.Context, as_json: AsJson = False) -> None:
    """List all running query texts.

    Example: `towpath query list`
    """
    found = all_running_queries(asyncio.run(ask(home_of(context), ListPipelines())).pipelines)
    if as_json:
        return print_json([each.model_dump(mode="json") for each in found])
    rows = [
        (each.name, each.at, ", ".join(query.query for query in each.queries), each.state) for each in found
    ]
    print_table(("name", "at", "queries", "state"), rows, nothing="no queries")


@app.command()
def show(
    context: typer.Context,
    name: QueryName,
    queries: Annotated[bool, typer.Option("--queries", help="List its queries instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the text of running queries.

    Example: `towpath query show departures > departures.sight`
    """
    found = running_queries(asyncio.run(ask(home_of(context), ShowPipeline(pipeline=name))))
    if queries:
        return print_queries(found.queries, as_json=as_json)
    if as_json:
        return print_json(found)
    print(found.text.rstrip())


@app.command()
def remove(
    context: typer.Context,
    name: QueryName,
    query: Annotated[
        str | None, typer.Option("--query", metavar="QUERY", help="This one only; the others go on.")
    ] = None,
    now: Now = False,
    purge: Annotated[bool, typer.Option("--purge", help="Delete the answers, too.")] = False,
    drop_state: DropState = None,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """End running queries. Their answers stay, unless purged.

    Example: `towpath query remove departures`
    """

    async def check() -> None:
        await check_removal(name, lambda question: ask(home_of(context), question))

    async def end_one(query: str) -> None:
        async with open_bus(home_of(context)) as bus:
            command = await removal(bus, name, query, drop_state or [], now=now)
            await carry_out(bus, command, wait=wait, within_s=within_s, as_json=as_json)

    if query is not None:
        if purge:
            raise _not_both("purge", True, "no --purge: the others' answers are on the same topic")
        return asyncio.run(end_one(query))
    asyncio.run(check())
    change(context, DeletePipeline(pipeline=name, now=now, purge=purge), wait, within_s, as_json)


def _name_of(file: Path, name: str | None) -> str:
    return name or as_name(file.stem)


def _pairs(filled: list[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in filled or []:
        name, sign, text = each.partition("=")
        if not sign:
            raise TowpathError(
                ErrorCode.INVALID, "no text is given", field="set", value=each, allowed="NAME=TEXT"
            )
        pairs[name] = text
    return pairs


def _given(at: str | None) -> str:
    if at is None:
        raise TowpathError(
            ErrorCode.INVALID, "no site is given that asks", field="at", allowed="--at SITE, or --into NAME"
        )
    return at


def _not_both(field: str, value: object, allowed: str) -> TowpathError:
    return TowpathError(
        ErrorCode.INVALID, "these options exclude each other", field=field, value=value, allowed=allowed
    )


async def _known_sites(context: typer.Context) -> list[str]:
    async with open_bus(home_of(context)) as bus:
        return await sites_of(bus)
