"""Commands for uplinks: topics that a site forwards to another site, and the proof that all arrived."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from towpath.bus import Bus
from towpath.cli.connection import CHANGE_ATTEMPT_S, LOOK_ATTEMPT_S, LOOK_DEADLINE_S, ask, open_bus
from towpath.cli.output import clock, print_json, print_table, say
from towpath.cli.pipeline_files import telling, text_of
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.data_plane import uplink_stream
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.uplink import (
    ApplyUplinks,
    ListUplinks,
    RemoveUplink,
    UplinkList,
    UplinkSpec,
    UplinkView,
)
from towpath.streams.pages import pages_after
from towpath.uplinks.account import Account, Proof
from towpath.uplinks.documents import read_uplinks
from towpath.uplinks.position import Range

app = typer.Typer(
    help="Forward topics over a link that is narrow, or seldom there, and prove that everything arrived."
)

UplinkFiles = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files with uplinks, in YAML.")]
UplinkName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the uplink.")]

MOST_RANGES = 20
"""Ranges of serial numbers in a line for people; the JSON has all."""


@app.command()
def apply(context: typer.Context, files: UplinkFiles, as_json: AsJson = False) -> None:
    """Make uplinks be as files say. Others stay as they are.

    An uplink that is there already goes on where it was.

    Example: `towpath uplink apply examples/uplinks/train.yaml`
    """
    wanted: list[UplinkSpec] = []
    for path in files:
        with telling(path, str):
            wanted += read_uplinks(text_of(path))
    names = {spec.name for spec in wanted}
    home, command = home_of(context), ApplyUplinks(uplinks=wanted)
    found = asyncio.run(ask(home, command, attempt_s=CHANGE_ATTEMPT_S, traced=True))
    _print([view for view in found.uplinks if view.uplink.spec.name in names], as_json=as_json)


@app.command("list")
def list_uplinks(context: typer.Context, as_json: AsJson = False) -> None:
    """List all uplinks with their backlog, and when it will be through.

    Example: `towpath uplink list`
    """
    _print(asyncio.run(ask(home_of(context), ListUplinks())).uplinks, as_json=as_json)


@app.command()
def show(context: typer.Context, name: UplinkName, as_json: AsJson = False) -> None:
    """Show an uplink, and account for everything that its destination keeps.

    Names the serial numbers that are missing, discarded by retention, or still to come. Ends with code 1 if
    any is missing or came twice.

    Example: `towpath uplink show axles`
    """
    view, proof = asyncio.run(_account(home_of(context), name))
    if as_json:
        print_json(
            {"uplink": view.uplink, "status": view.status, "proof": proof, "complete": proof.is_complete}
        )
    else:
        _print([view], as_json=False)
        _print_proof(view, proof)
    if proof.missing or proof.repeated:
        raise typer.Exit(1)


@app.command()
def remove(
    context: typer.Context,
    name: UplinkName,
    purge: Annotated[bool, typer.Option("--purge", help="Delete what has arrived, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forward no more. What has arrived stays, unless purged.

    Example: `towpath uplink remove axles`
    """
    command = RemoveUplink(uplink=name, purge=purge)
    done = asyncio.run(ask(home_of(context), command, attempt_s=CHANGE_ATTEMPT_S, traced=True))
    if as_json:
        return print_json(done)
    say(done.note)


async def _account(home: Any, name: str) -> tuple[UplinkView, Proof]:
    async with open_bus(home, traced=False) as bus:
        found: UplinkList = await bus.request(
            ListUplinks(), deadline_s=LOOK_DEADLINE_S, attempt_s=LOOK_ATTEMPT_S
        )
        views = {view.uplink.spec.name: view for view in found.uplinks}
        if name not in views:
            raise TowpathError.unknown("uplink", name, sorted(views), field="name")
        return views[name], await _proof(bus, views[name].uplink.spec)


async def _proof(bus: Bus, spec: UplinkSpec) -> Proof:
    account = Account()
    try:
        async for messages in pages_after(bus.connection, spec.to, uplink_stream(spec.name), 0):
            for message in messages:
                account.take(message.headers)
    except TimeoutError as error:
        raise TowpathError(
            ErrorCode.SITE_DOWN, f"{spec.to} does not answer", field="to", value=spec.to
        ) from error
    return account.proof()


def _print(views: Sequence[UplinkView], *, as_json: bool) -> None:
    if as_json:
        return print_json(views)
    rows = [
        (
            view.uplink.spec.name,
            f"{view.uplink.spec.site} → {view.uplink.spec.to}",
            view.uplink.spec.public_topic,
            _state(view),
            view.status.forwarded,
            view.status.backlog_events,
            f"{view.status.rate / 1000:.1f} kB/s",
            None if view.status.through_s is None else f"{view.status.through_s:.0f} s",
            view.status.discarded,
        )
        for view in views
    ]
    columns = ("uplink", "link", "topic", "state", "forwarded", "backlog", "rate", "through in", "discarded")
    print_table(columns, rows, nothing="no uplinks")


def _state(view: UplinkView) -> str:
    if view.status.opens_at is not None:
        return f"{view.status.state} until {clock(view.status.opens_at)}"
    return str(view.status.state)


def _print_proof(view: UplinkView, proof: Proof) -> None:
    since = f" after {proof.begins_after}" if proof.begins_after else ""
    print(
        f"{proof.events} events kept at {view.uplink.spec.to}, of serial numbers{since} up to {proof.through}"
    )
    for what, ranges in (("missing", proof.missing), ("discarded", proof.gone), ("to come", proof.pending)):
        print(f"{what}: {_ranges(ranges)}")
    print(f"twice: {proof.repeated or 'none'}; out of order: {proof.out_of_order or 'none'}")
    print("complete" if proof.is_complete else "not complete")


def _ranges(ranges: Sequence[Range]) -> str:
    parts = [str(first) if first == last else f"{first}–{last}" for first, last in ranges[:MOST_RANGES]]
    more = [f"and {len(ranges) - MOST_RANGES} more ranges"] if len(ranges) > MOST_RANGES else []
    return ", ".join([*parts, *more]) or "none"
