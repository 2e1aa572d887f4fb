"""`towpath faults`: break a running mesh on purpose, and see what came of it."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from towpath.cli.connection import AnswerT, ask, open_bus
from towpath.cli.endings import BAD_INPUT, complain
from towpath.cli.output import print_json, print_json_line, say, working
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.fault_commands import (
    LONGEST_LEASE_S,
    DescribeFaults,
    ExplainRule,
    Explanation,
    ListMetrics,
    ListRules,
    LoadRules,
    RuleList,
    UnloadRules,
)
from towpath.contracts.message import Command
from towpath.lab.cli.fault_files import read_files, telling
from towpath.lab.cli.fault_metrics import follow_metrics
from towpath.lab.cli.fault_views import (
    Part,
    print_catalogue,
    print_explanation,
    print_rules,
    rule_table,
)
from towpath.lab.faults.rule_files import WrittenRule
from towpath.mesh.home import Home
from towpath.tasks import pause

DEADLINE_S = 20.0
"""Everything is answered within seconds, unless the injector is just restarting."""

ATTEMPT_S = 8.0
"""Then a command is sent again: the injector that heard it may have died."""

WATCH_EVERY_S = 1.0

HELP = """\
Break a running mesh on purpose, and measure what happens.

A rule says at which *event*, under which *condition*, which *actions* are done. In a file `slow.yaml`:

    name: slow-every-1000th
    event: {point: operator.event}
    where: {job: delays}
    condition: event.delay > 15.0
    every: 1000
    actions:
      - {fault: delay, parameters: {ms: 10}}

`towpath faults explain slow.yaml` says what it would do, `towpath faults load slow.yaml --for 60` does it
for a minute, `towpath faults list` how often it acted, `towpath faults unload slow-every-1000th` ends it.
What rules can be made of: `towpath faults describe`.
"""

app = typer.Typer(help=HELP, rich_markup_mode="markdown")

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="YAML or JSON: one rule, a list, or `rules:` and a list."),
]


@app.command()
def load(
    context: typer.Context,
    files: Files,
    lease_s: Annotated[
        float | None,
        typer.Option(
            "--lease",
            min=0.5,
            max=LONGEST_LEASE_S,
            help="The rules unload themselves unless they are loaded again within so many seconds.",
        ),
    ] = None,
    for_s: Annotated[
        float | None,
        typer.Option("--for", min=0.1, help="The rules unload themselves after so many seconds."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Load the rules of files, all or none. They take effect within a second, in what runs.

    A rule of a loaded name replaces that one; an equal one is left alone.

    Example: `towpath faults load slow.yaml --for 60`
    """
    read = read_files(files, for_s=for_s)
    begun = time.monotonic()
    with working(f"loading {counted(read)}…"), telling(read):
        command = LoadRules(rules=[each.rule for each in read], lease_s=lease_s)
        found = asyncio.run(_ask(home_of(context), command))
    names = {each.rule.name for each in read}
    mine = [view for view in found.rules if view.rule.name in names]
    scopes = sorted({scope for view in mine for scope in view.scopes})
    say(f"loaded {counted(read)} at {', '.join(scopes)} in {time.monotonic() - begun:.2f} s")
    for scope in sorted({scope for view in mine for scope in view.unreached}):
        say(f"{scope} does not answer; it gets its rules when it does")
    if as_json:
        print_json(mine)


@app.command()
def unload(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="Names of rules.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every rule that is loaded.")] = False,
    as_json: AsJson = False,
) -> None:
    """Unload rules. They end within a second, and what they held up goes on.

    Example: `towpath faults unload --all`
    """
    if bool(names) == every:
        raise TowpathError(
            ErrorCode.INVALID, "say which rules to unload", field="names", allowed="names of rules, or --all"
        )
    begun = time.monotonic()
    with working("unloading…"):
        left = asyncio.run(_unload(home_of(context), names))
    say(f"unloaded in {time.monotonic() - begun:.2f} s; {len(left.rules)} left")
    if as_json:
        print_json(left.rules)


async def _unload(home: Home, names: list[str] | None) -> RuleList:
    if names is not None:
        loaded = sorted(view.rule.name for view in (await _ask(home, ListRules())).rules)
        unknown = [name for name in names if name not in loaded]
        if unknown:
            raise TowpathError(
                ErrorCode.INVALID, "no such rule is loaded", field="names", value=unknown[0], allowed=loaded
            )
    return await _ask(home, UnloadRules(names=names))


@app.command("list")
def list_rules(
    context: typer.Context,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Look again every second, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the rules that are loaded, where, for how long, and how often they acted.

    Example: `towpath faults list --watch`
    """
    home = home_of(context)
    if watch:
        return asyncio.run(_watch(home, as_json))
    found = asyncio.run(_ask(home, ListRules())).rules
    if as_json:
        return print_json(found)
    print_rules(found)


async def _watch(home: Home, as_json: bool) -> None:
    async with open_bus(home) as bus:
        with nullcontext() if as_json else Live(auto_refresh=False) as screen:
            while True:
                found = await bus.request(ListRules(), deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S)
                if screen is None:
                    print_json_line(found.rules)
                else:
                    screen.update(rule_table(found.rules), refresh=True)
                await pause(WATCH_EVERY_S)


@app.command()
def explain(context: typer.Context, files: Files, as_json: AsJson = False) -> None:
    """Say what the rules of files would do, where, and what is wrong with them. Nothing is loaded.

    Example: `towpath faults explain slow.yaml`
    """
    read = read_files(files)
    with working("looking at the mesh…"):
        explanations = asyncio.run(_explain(home_of(context), read))
    if as_json:
        print_json(explanations)
    else:
        for explanation in explanations:
            print_explanation(explanation)
    for each, explanation in zip(read, explanations, strict=True):
        for error in explanation.errors:
            complain(each.located(error).one_line())
    if not all(explanation.loadable for explanation in explanations):
        raise typer.Exit(BAD_INPUT)


async def _explain(home: Home, read: list[WrittenRule]) -> list[Explanation]:
    async with open_bus(home) as bus:
        return [
            await bus.request(ExplainRule(rule=each.rule), deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S)
            for each in read
        ]


@app.command()
def describe(
    context: typer.Context,
    part: Annotated[Part | None, typer.Argument(help="Only this.", show_default="everything")] = None,
    as_json: AsJson = False,
) -> None:
    """Describe what rules can be made of: points, targets that there are now, faults, words of conditions.

    Example: `towpath faults describe faults`
    """
    found = asyncio.run(_ask(home_of(context), DescribeFaults()))
    if as_json:
        return print_json(found if part is None else getattr(found, part.value))
    print_catalogue(found, part)


@app.command()
def metrics(
    context: typer.Context,
    name: Annotated[str | None, typer.Option(help="Only metrics of this name.")] = None,
    entity: Annotated[str | None, typer.Option(help="Only of this entity, such as a process.")] = None,
    site: Annotated[str | None, typer.Option(help="Only of this site, or of `hub`.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The newest so many.")] = 1_000,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV on stdout and nothing else.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print what rules with `emit` have measured. The injector keeps the newest ten thousand.

    Example: `towpath faults metrics --name batch_processing_s --follow --csv > batches.csv`
    """
    question = ListMetrics(name=name, entity=entity, site=site, limit=limit)
    asyncio.run(follow_metrics(home_of(context), question, follow=follow, as_csv=as_csv, as_json=as_json))


async def _ask(home: Home, command: Command[AnswerT]) -> AnswerT:
    return await ask(home, command, deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S, traced=True)


def counted(read: list[WrittenRule]) -> str:
    """`1 rule`, `3 rules`."""
    return f"{len(read)} rule{'' if len(read) == 1 else 's'}"
