"""Users of single devices, or groups of devices, at a site's MQTT broker: add, list and revoke."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.connection import mesh_of_processes
from towpath.cli.output import clock, print_json, print_table, say
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.device_users import add_device, is_taken_in, revoke_device, saved_devices, user_of
from towpath.mesh.home import Home
from towpath.mesh.provisioning import exclusively
from towpath.mesh.state import SiteAccess
from towpath.processes import find
from towpath.tasks import NotInTime, wait_until

TAKEN_IN_S = 5.0
"""Time for the site's agent and broker to take in a change. It takes them less than a second."""

LOOK_EVERY_S = 0.05

HASHES = {"bcrypt", "pbkdf2"}

app = typer.Typer(help="Give devices, or groups of devices, users of their own at a site's MQTT broker.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the device, or of a group of them.")]
Site = Annotated[str, typer.Option(metavar="SITE", help="Where it logs in: a site of this machine.")]


@app.command()
def add(
    context: typer.Context,
    name: Name,
    site: Site,
    publish: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX", help="It may publish to this topic and below.", show_default="site/#"),
    ] = None,
    subscribe: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILTER",
            help="It may receive what this filter of MQTT matches.",
            show_default="topics of jobs and broadcasts",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the password of a new MQTT user. It is shown once: only hashes are kept.

    Example: `towpath device add press --site jfk --publish site/press --subscribe 'stats/#'`
    """
    home = home_of(context)
    path = _file(home, site)
    with exclusively(home):
        login, device = add_device(path, site, name, publish or (), subscribe or ())
    in_effect = _in_effect(home, site)
    if as_json:
        kept = device.model_dump(exclude=HASHES)
        return print_json({"site": site, **kept, **dict(login), "in_effect": in_effect})
    say(f"user {login.user}, with this password:")
    print(login.password)


@app.command("list")
def list_devices(context: typer.Context, as_json: AsJson = False) -> None:
    """List the users of devices at all sites of this machine, without their passwords.

    Example: `towpath device list`
    """
    home = home_of(context)
    sites = [
        access for access in asyncio.run(mesh_of_processes(home)).sites.values() if not access.is_elsewhere
    ]
    found = [
        {"site": name, "user": user_of(name, device.name), **device.model_dump(exclude=HASHES)}
        for name in sorted(access.spec.name for access in sites if access.spec.broker.host is None)
        for device in saved_devices(home.devices(name))
    ]
    if as_json:
        return print_json(found)
    rows = (
        (
            each["site"],
            each["name"],
            each["user"],
            ", ".join(f"{prefix}/#" for prefix in each["publish"]),
            each["subscribe"] and ", ".join(each["subscribe"]),
            clock(each["created"]),
        )
        for each in found
    )
    columns = ("site", "name", "user", "publishes", "subscribes", "created")
    print_table(columns, rows, nothing="no device has a user of its own")


@app.command()
def revoke(context: typer.Context, name: Name, site: Site, as_json: AsJson = False) -> None:
    """Remove an MQTT user, at once. Its connections end.

    Example: `towpath device revoke press --site jfk`
    """
    home = home_of(context)
    path = _file(home, site)
    with exclusively(home):
        revoke_device(path, name)
    in_effect = _in_effect(home, site)
    print_json({"revoked": name, "in_effect": in_effect}) if as_json else print(f"revoked {name}")


def _file(home: Home, site: str) -> Path:
    """Return the file with a site's devices. Raises `TowpathError` where Towpath does not give them users."""
    access = asyncio.run(mesh_of_processes(home)).site(site)
    access.check_here()
    _check_broker(access)
    return home.devices(site)


def _check_broker(access: SiteAccess) -> None:
    broker = access.spec.broker
    if broker.host is not None:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"the broker at {broker.host} is not Towpath's: its administrator manages its users",
            field="site",
            value=access.spec.name,
            allowed="a site with the broker nats, or with a Mosquitto that its agent runs",
        )


def _in_effect(home: Home, site: str) -> bool:
    """Return True once the site's broker has the users of the site's file. Say so where it has not."""
    path = home.devices(site)
    with contextlib.suppress(NotInTime):
        wait_until(
            lambda: is_taken_in(path) or find(home.run, f"{site}-agent") is None, TAKEN_IN_S, LOOK_EVERY_S
        )
    if is_taken_in(path):
        return True
    say(f"not in effect yet: the agent of {site} does it when it runs, see `towpath status`")
    return False
