"""Commands for emulated links: how they are, and to make them worse or better."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from towpath.cli.connection import AnswerT, ask, load_mesh
from towpath.cli.output import clock, print_json, print_table
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.links import LinkConditions, LinkView, ListLinks, OneWay, RestoreLink, ShapeLink
from towpath.contracts.message import Command
from towpath.mesh.home import Home

DEADLINE_S = 20.0
"""Everything is answered at once, unless the links' process is just being restarted."""

COLUMNS = (
    "site",
    "link",
    "delay",
    "jitter",
    "bandwidth",
    "loss",
    "until",
    "connections",
    "bytes to hub",
    "bytes to site",
)


Site = Annotated[str, typer.Argument(metavar="SITE", help="Whose link to the hub.")]
Cut = Annotated[bool, typer.Option("--cut", help="Let nothing pass, as when a cable is pulled.")]
CutOnly = Annotated[OneWay | None, typer.Option("--cut-only", help="Let nothing pass in one direction.")]
Delay = Annotated[float | None, typer.Option("--delay-ms", help="How long everything travels, one way.")]
Jitter = Annotated[
    float | None, typer.Option("--jitter-ms", help="By how much the delay varies, up and down.")
]
Bandwidth = Annotated[int | None, typer.Option("--bandwidth", help="Bytes per second in each direction.")]
Loss = Annotated[
    float | None, typer.Option("--loss", metavar="PERCENT", help="Of packets that are lost, and sent again.")
]
Resend = Annotated[
    float | None, typer.Option("--resend-ms", help="How long it takes until a lost packet is sent again.")
]
Slice = Annotated[int | None, typer.Option("--slice-bytes", help="Deliver in slices of as many bytes.")]
SliceDelay = Annotated[float | None, typer.Option("--slice-delay-ms", help="Between two slices.")]
Reset = Annotated[
    float | None, typer.Option("--reset-every", metavar="SECONDS", help="Break all connections so often.")
]
For = Annotated[float | None, typer.Option("--for", help="Seconds after which the link restores itself.")]
Restore = Annotated[bool, typer.Option("--restore", help="Make the link perfect again.")]


def links(context: typer.Context, as_json: AsJson = False) -> None:
    """List the emulated links between sites and hub: how good each is, and what passed.

    Example: `towpath links`
    """
    found = asyncio.run(_ask(home_of(context), ListLinks())).links
    if as_json:
        return print_json(found)
    print_table(COLUMNS, [_row(view) for view in found], nothing="no links")


def link(
    context: typer.Context,
    site: Site,
    cut: Cut = False,
    cut_only: CutOnly = None,
    delay_ms: Delay = None,
    jitter_ms: Jitter = None,
    bandwidth: Bandwidth = None,
    loss: Loss = None,
    resend_ms: Resend = None,
    slice_bytes: Slice = None,
    slice_delay_ms: SliceDelay = None,
    reset_every_s: Reset = None,
    for_s: For = None,
    restore: Restore = False,
    as_json: AsJson = False,
) -> None:
    """Make a site's link to the hub worse, or better. What is given replaces all that held before.

    The mesh must emulate its links: `towpath up --emulate-links`.

    Example: `towpath link jfk --cut --for 20`
    """
    given: dict[str, Any] = {
        "cut": cut or None,
        "cut_only": cut_only,
        "delay_ms": delay_ms,
        "jitter_ms": jitter_ms,
        "bandwidth_bytes_per_s": bandwidth,
        "loss_percent": loss,
        "resend_ms": resend_ms,
        "slice_bytes": slice_bytes,
        "slice_delay_ms": slice_delay_ms,
        "reset_every_s": reset_every_s,
        "for_s": for_s,
    }
    command = _command(site, {name: value for name, value in given.items() if value is not None}, restore)
    view = asyncio.run(_ask(home_of(context), command))
    if as_json:
        return print_json(view)
    print_table(COLUMNS, [_row(view)], nothing="no links")


def _command(site: str, given: dict[str, Any], restore: bool) -> ShapeLink | RestoreLink:
    """Return the command that the options ask for.

    Raises `TowpathError` or a validation error when they make no sense.
    """
    senseless = bool(given) if restore else not given.keys() - {"for_s"}
    if senseless:
        raise TowpathError(
            ErrorCode.INVALID,
            "say either how bad the link must be, or that it must be restored",
            field="link",
            value=site,
            allowed="--restore, or at least one of --cut, --cut-only, --delay-ms, --jitter-ms, --bandwidth, "
            "--loss, --slice-bytes and --reset-every",
        )
    if restore:
        return RestoreLink(site=site)
    return ShapeLink(site=site, conditions=LinkConditions.model_validate(given))


async def _ask(home: Home, command: Command[AnswerT]) -> AnswerT:
    mesh = await load_mesh(home)
    if not mesh.spec.emulate_links:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "this mesh emulates no links; start it with `towpath up --emulate-links`",
            field="emulate_links",
            value=False,
            allowed="true",
        )
    return await ask(home, command, deadline_s=DEADLINE_S, traced=True)


def _state(conditions: LinkConditions) -> str:
    if conditions.cut_only and not conditions.cut:
        return f"cut {conditions.cut_only}"
    return "cut" if conditions.cut else "perfect" if conditions.perfect else "worse"


def _row(view: LinkView) -> tuple[object, ...]:
    conditions = view.conditions
    rate = conditions.bandwidth_bytes_per_s
    return (
        view.site,
        _state(conditions),
        f"{conditions.delay_ms:g} ms",
        f"{conditions.jitter_ms:g} ms",
        None if rate is None else f"{rate:,} B/s",
        f"{conditions.loss_percent:g} %",
        clock(view.until),
        view.connections,
        f"{view.bytes_to_hub:,}",
        f"{view.bytes_to_site:,}",
    )
