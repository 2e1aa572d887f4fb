"""Show addresses and users for people and devices."""

from __future__ import annotations

import asyncio
import shlex
from typing import Annotated

import typer

from towpath.cli.connection import load_mesh
from towpath.cli.output import print_json, print_table
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.credential import Credential
from towpath.mesh.state import MeshState

COLUMNS = ("who", "where", "user", "password")


def access(
    context: typer.Context,
    env: Annotated[
        bool, typer.Option("--env", help="Print shell assignments for NATS and REST clients.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show addresses, users and passwords: NATS at the hub, REST with its token, the page, MQTT at each site.

    Where devices share no user, `towpath device list` has theirs.

    NATS clients must set the inbox prefix to `_INBOX.<user>`: users may read replies to themselves only.

    Example: `eval "$(towpath access --env)"`
    """
    mesh = asyncio.run(load_mesh(home_of(context)))
    if env:
        for name, value in hub_environment(mesh).items():
            print(f"export {name}={shlex.quote(value)}")
    elif as_json:
        print_json([dict(zip(COLUMNS, row, strict=True)) for row in _rows(mesh)])
    else:
        print_table(COLUMNS, _rows(mesh), nothing="no users")


def hub_environment(mesh: MeshState) -> dict[str, str]:
    """Return environment variables for NATS clients, as operator, and for REST clients."""
    user = mesh.operator
    return {
        "TOWPATH_URL": mesh.hub_url,
        "TOWPATH_USER": user.user,
        "TOWPATH_PASSWORD": user.password,
        "TOWPATH_API": mesh.api_url,
        "TOWPATH_TOKEN": mesh.api_token,
        **({"TOWPATH_AUTHORITY": mesh.authority} if mesh.authority else {}),
    }


def page_url(mesh: MeshState) -> str:
    """Return the page's address. The token is in the fragment, which browsers do not send."""
    return f"{mesh.api_url}/#token={mesh.api_token}"


def _rows(mesh: MeshState) -> list[tuple[str, str, str, str]]:
    operator = mesh.operator
    rows = [
        ("commands and events (NATS)", mesh.hub_url, operator.user, operator.password),
        ("commands and events (REST)", mesh.api_url, "", mesh.api_token),
        ("the live page, in a browser", page_url(mesh), "", ""),
    ]
    if not mesh.has_services:
        rows = rows[:1] if mesh.spare else []
    for name in sorted(mesh.sites_here):
        site = mesh.sites[name]
        scheme = "mqtts" if site.mqtt_is_encrypted else "mqtt"
        address = f"{scheme}://{site.mqtt_host}:{site.mqtt_port}"
        shared = site.device if site.spec.broker.shared_device else Credential(user="", password="")
        rows.append((f"devices and subscribers at {name}", address, shared.user, shared.password))
        if site.gateway is not None and site.spec.broker.host is None:
            rows.append((f"gateways of {name}", address, site.gateway.user, site.gateway.password))
    if mesh.authority:
        rows.append(("everyone checks certificates with", mesh.authority, "", ""))
    return rows
