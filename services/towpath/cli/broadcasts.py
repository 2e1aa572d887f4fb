"""Commands for broadcasts: one message for the devices of many sites."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.connection import CHANGE_ATTEMPT_S, ask
from towpath.cli.output import clock, print_json, print_table, say
from towpath.cli.pipeline_files import bytes_of
from towpath.cli.settings import AsJson, home_of
from towpath.cli.times import seconds_of
from towpath.contracts.broadcast import (
    BroadcastState,
    BroadcastView,
    Content,
    ListBroadcasts,
    SendBroadcast,
    ShowBroadcast,
)

TopicArgument = Annotated[
    str, typer.Argument(metavar="TOPIC", help="Devices subscribe to `broadcast/TOPIC/+` at their own site.")
]
Payload = Annotated[
    str, typer.Argument(metavar="PAYLOAD", help="Text; `@FILE`: the content of a file; `-`: standard input.")
]
Sites = Annotated[
    list[str] | None, typer.Option("--site", metavar="SITE", help="Only to this site; may be repeated.")
]
Expires = Annotated[
    str, typer.Option(metavar="TIME", help="No site and no device gets it after this time: 30s, 1h, 7d.")
]
BroadcastArgument = Annotated[str | None, typer.Argument(metavar="ID", help="Show this one, site by site.")]


def broadcast(
    context: typer.Context,
    topic: TopicArgument,
    payload: Payload,
    site: Sites = None,
    expires: Expires = "1d",
    as_json: AsJson = False,
) -> None:
    """Send one message to the devices of all sites, or of some, once over each site's link.

    A site that is out of reach gets it when it comes back, unless it has expired.

    Example: `towpath broadcast lamps/all off --site jfk --expires 1h`
    """
    expires_s = seconds_of(expires, "expires")
    command = SendBroadcast(
        topic=topic, sites=site or [], expires_s=expires_s, **Content.fields_for(_bytes_of(payload))
    )
    view = asyncio.run(ask(home_of(context), command, attempt_s=CHANGE_ATTEMPT_S, traced=True))
    if as_json:
        return print_json(view)
    _print_sites(view)
    if view.count(BroadcastState.WAITING):
        say(f"sites that wait get it later: `towpath broadcasts {view.broadcast}`")


def broadcasts(context: typer.Context, identifier: BroadcastArgument = None, as_json: AsJson = False) -> None:
    """List broadcasts, newest first, or show one with its state at each site.

    Example: `towpath broadcasts`
    """
    if identifier is not None:
        view = asyncio.run(ask(home_of(context), ShowBroadcast(broadcast=identifier)))
        return print_json(view) if as_json else _print_sites(view)
    found = asyncio.run(ask(home_of(context), ListBroadcasts())).broadcasts
    if as_json:
        return print_json(found)
    columns = ("broadcast", "topic", "bytes", "sent", "by", "expires", *BroadcastState)
    rows = [
        (
            view.broadcast,
            view.topic,
            view.payload_bytes,
            clock(view.sent_at),
            view.asked_by,
            clock(view.expires_at),
            *(view.count(state) for state in BroadcastState),
        )
        for view in found
    ]
    print_table(columns, rows, nothing="no broadcasts; send one with `towpath broadcast`")


def _bytes_of(payload: str) -> bytes:
    if payload == "-":
        return sys.stdin.buffer.read()
    if payload.startswith("@"):
        return bytes_of(Path(payload[1:]))
    return payload.encode()


def _print_sites(view: BroadcastView) -> None:
    counts = ", ".join(f"{state} at {view.count(state)}" for state in BroadcastState if view.count(state))
    say(f"broadcast {view.broadcast}, {view.payload_bytes} bytes on broadcast/{view.topic}: {counts}")
    rows = [
        (each.site, each.state, clock(each.at), each.subscriptions, each.note or None) for each in view.sites
    ]
    print_table(("site", "state", "since", "subscriptions", "note"), rows, nothing="no sites")
