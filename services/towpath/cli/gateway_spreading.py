"""Let gateways share several sites, and change the sites while they run."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import Annotated, Any

import msgspec
import typer

from towpath.cli.connection import load_mesh
from towpath.cli.endings import FAILED
from towpath.cli.gateway_requests import answer_of, present
from towpath.cli.output import print_json, print_table, say
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.gateway import ACCOUNT, CONFIGURATIONS, GET, PUT, Delivery, DeliverySite
from towpath.gateways.client import GatewayClient
from towpath.gateways.spreading import site_of
from towpath.mesh.site_broker import gateway_broker
from towpath.mesh.state import MeshState

OWN = "own"
"""In place of sites: each gateway's own site, as before they shared any."""

Shares = Annotated[
    str,
    typer.Argument(
        metavar="SITE[=WEIGHT],…",
        help=f"Sites that share the gateways' results; `{OWN}`: each gateway's own site again.",
    ),
]
At = Annotated[
    list[str] | None,
    typer.Option("--site", metavar="SITE", help="Only gateways of this site; may be repeated."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would be. Nothing changes.")]
Within = Annotated[float, typer.Option(min=0.1, help="Seconds to wait for answers.")]


def spread(
    context: typer.Context,
    sites: Shares,
    at: At = None,
    dry_run: DryRun = False,
    within: Within = 60.0,
    account: Annotated[str, typer.Option(help="Account of the gateways.")] = ACCOUNT,
    as_json: AsJson = False,
) -> None:
    """Let gateways share several sites: each sends its results to the site of its group.

    If a site is added, only the groups that it gets move. Results that have a number already go where they
    would have gone. Run it again for gateways that were offline.

    Example: `towpath gateway spread jfk,cloud=2`
    """
    weights = {} if sites == OWN else weights_of(sites)

    async def ask() -> list[dict[str, Any]]:
        mesh = await load_mesh(home_of(context))
        body = _body(mesh, weights)
        wanted = (GET, None) if dry_run else (PUT, body)
        homes = at or [*mesh.sites]
        asked = (_ask_site(mesh, home, account, wanted, within) for home in homes)
        return [each for found in await asyncio.gather(*asked) for each in found]

    answers = asyncio.run(ask())
    for answer in answers:
        answer["to"] = _site_after(answer, weights)
    if as_json:
        print_json(answers)
    else:
        _print(answers, dry_run=dry_run)
    if any(answer["code"] != 200 for answer in answers):
        raise typer.Exit(FAILED)


def weights_of(text: str) -> dict[str, float]:
    """Return each site with its weight from `SITE[=WEIGHT],…`. Raises `TowpathError`."""
    weights: dict[str, float] = {}
    for part in text.split(","):
        site, _, weight = part.partition("=")
        try:
            weights[site] = float(weight or 1)
        except ValueError:
            weights[site] = math.nan
        if not site or not 0 < weights[site] <= 1000:
            raise TowpathError(
                ErrorCode.INVALID,
                "not a site with its weight",
                field="sites",
                value=part,
                allowed="SITE or SITE=WEIGHT, with a weight up to 1000",
            )
    return weights


def _body(mesh: MeshState, weights: dict[str, float]) -> Any:
    """Return the body of PUT `delivery`. Raises `TowpathError` for an unknown site."""
    sites: dict[str, DeliverySite] = {}
    for site, weight in weights.items():
        broker = gateway_broker(mesh.site(site))
        sites[site] = DeliverySite(
            broker.host, broker.port, user=broker.user, password=broker.password, weight=weight
        )
    return msgspec.to_builtins(Delivery(sites))


async def _ask_site(
    mesh: MeshState, home: str, account: str, wanted: tuple[str, Any], within: float
) -> list[dict[str, Any]]:
    """Ask all gateways of a site at once."""
    verb, body = wanted
    async with GatewayClient(gateway_broker(mesh.site(home)), account) as client:
        request = (CONFIGURATIONS, verb, "delivery", body)
        devices = sorted(await present(client))
        asked = (answer_of(client, device, request, None, within) for device in devices)
        return [{"at": home} | answer for answer in await asyncio.gather(*asked)]


def _site_after(answer: dict[str, Any], weights: dict[str, float]) -> str | None:
    """Return the site that takes a gateway's results from then on; None if it is not known."""
    if answer["code"] != 200:
        return None
    return site_of(answer["body"]["group"], weights) if weights else answer["at"]


def _print(answers: list[dict[str, Any]], *, dry_run: bool) -> None:
    counts = Counter(answer["to"] for answer in answers if answer["to"])
    if counts:
        say(", ".join(f"{site}: {count}" for site, count in sorted(counts.items())))
    rows = [
        (
            answer["device"],
            answer["at"],
            answer["to"] or answer["body"]["errors"][0]["message"],
            sum(route["waiting"] for route in answer["body"].get("routes", ())[:-1]) or None,
        )
        for answer in answers
    ]
    columns = ("gateway", "of site", "results would go to" if dry_run else "results go to", "wait elsewhere")
    print_table(columns, rows, nothing="no gateways")
