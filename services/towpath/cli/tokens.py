"""Tokens of people and programs for the REST interface and the page: add, list and revoke."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated

import typer

from towpath.cli.connection import check_services_here, mesh_of_processes
from towpath.cli.output import clock, print_json, print_table, say
from towpath.cli.settings import AsJson, home_of
from towpath.cli.times import seconds_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import now
from towpath.contracts.role import Role
from towpath.mesh.home import Home
from towpath.mesh.provisioning import exclusively
from towpath.mesh.tokens import OWNER, add_token, revoke_token, saved_tokens

app = typer.Typer(
    help="Give people and programs tokens for REST and the page: to view, to operate, or for all."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is; it stands beside each change.")]


@app.command()
def add(
    context: typer.Context,
    name: Name,
    role: Annotated[Role, typer.Option(help="What its holder may do.")],
    expires: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Not valid after it, e.g. 30d.", show_default="never"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a new token. It is shown once: only its hash is kept.

    Example: `towpath token add ada --role operate --expires 30d`
    """
    home = _home(context)
    until = None if expires is None else now() + timedelta(seconds=_within_a_century(expires))
    with exclusively(home):
        text, token = add_token(home.tokens, name, role, until)
    if as_json:
        return print_json({**token.model_dump(exclude={"digest"}), "token": text})
    say(f"{name} may {role}" + (f" until {until:%Y-%m-%d %H:%M} UTC" if until else ", until it is revoked"))
    print(text)


@app.command("list")
def list_tokens(context: typer.Context, as_json: AsJson = False) -> None:
    """List all tokens, without their texts. The owner's is the one that `towpath access` shows.

    Example: `towpath token list`
    """
    tokens = saved_tokens(_home(context).tokens)
    at = now()
    if as_json:
        owner = {"name": OWNER, "role": Role.ADMIN, "created": None, "expires": None, "has_expired": False}
        kept = [{**t.model_dump(exclude={"digest"}), "has_expired": t.has_expired(at)} for t in tokens]
        return print_json([owner, *kept])
    rows: list[tuple[object, ...]] = [(OWNER, Role.ADMIN, None, None)]
    for token in tokens:
        end = "expired" if token.has_expired(at) else token.expires and clock(token.expires)
        rows.append((token.name, token.role, clock(token.created), end))
    print_table(("name", "role", "created", "expires"), rows, nothing="")


@app.command()
def revoke(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Make a token void, at once. Event streams that it opened end.

    Example: `towpath token revoke ada`
    """
    home = _home(context)
    if name == OWNER:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the page's address and the mesh's own commands need this token",
            field="name",
            value=name,
            allowed="any other token",
        )
    with exclusively(home):
        revoke_token(home.tokens, name)
    print_json({"revoked": name}) if as_json else print(f"revoked {name}")


def _home(context: typer.Context) -> Home:
    """Return the directory of a mesh whose REST interface reads it. Raises `TowpathError`."""
    home = home_of(context)
    check_services_here(home, asyncio.run(mesh_of_processes(home)))
    return home


def _within_a_century(expires: str) -> float:
    """Return seconds. Raises `TowpathError` (invalid) for more than dates can express safely."""
    seconds = seconds_of(expires, "expires")
    if seconds > 36_500 * 86_400:
        raise TowpathError(
            ErrorCode.INVALID, "too long", field="expires", value=expires, allowed="up to 36500d"
        )
    return seconds
