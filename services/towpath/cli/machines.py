"""Sites on other machines: invite one, join with its bundle, leave. Replace the keys of any site."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from towpath.atomic_write import write_private_file
from towpath.bus import Bus
from towpath.cli import systemd_unit
from towpath.cli.at_site import jobs_at
from towpath.cli.connection import another_mesh, ask, check_services_here, load_mesh, mesh_of_processes
from towpath.cli.output import print_json, say, working
from towpath.cli.settings import AsJson, home_of
from towpath.cli.spares import join_as_spare, name_of
from towpath.cli.times import seconds_of
from towpath.contracts.commands import ListJobs
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.joining import LONGEST_EXPIRY_S, Bundle, SpareBundle
from towpath.contracts.message import now
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.joining import (
    invited,
    join_command,
    joining_mesh,
    renewing,
    rotated,
    with_keys_for,
    with_renewed,
    without_site,
)
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.provisioning import exclusively
from towpath.mesh.settings import parse_spec
from towpath.mesh.state import MeshState, SiteAccess
from towpath.mesh.tls_files import client_context
from towpath.processes import find
from towpath.tasks import pause

JOIN_S = 60.0
"""Deadline to be admitted and up: an agent takes a few seconds to start."""

ATTEMPT_S = 5.0

LOOK_EVERY_S = 0.5

app = typer.Typer(help="Let other machines run sites of this mesh.")

KEYS_S = 30.0
"""Deadline for a site to use its new keys: its server reads them within a second, Redis restarts."""

SiteName = Annotated[str, typer.Argument(metavar="SITE", help="Name of the site.")]
Into = Annotated[
    Path | None, typer.Option("--into", metavar="FILE", help="The bundle.", show_default="SITE.bundle")
]
Expires = Annotated[str, typer.Option(metavar="TIME", help="The bundle is of no use after it.")]


@app.command()
def add(
    context: typer.Context,
    site: SiteName,
    host: Annotated[
        str,
        typer.Option("--hub", metavar="HOST", help="Address of this machine, as the other one reaches it."),
    ],
    into: Into = None,
    expires: Expires = "1d",
    as_json: AsJson = False,
) -> None:
    """Write the bundle with which another machine joins the mesh as one site.

    It works once, and holds no keys: the other machine makes those. Until it has joined, a further bundle
    takes the place of the first.

    Example: `towpath site add barge --hub 192.0.2.10`
    """
    home = home_of(context)
    expires_s = _expiry(expires)
    spec = parse_spec({"sites": [{"name": site}]}).sites[0]
    check_services_here(home, asyncio.run(mesh_of_processes(home)))
    bundle = _invite(home, lambda state: invited(state, spec, host, expires_s, now()))
    _hand_out(home, bundle, into, as_json=as_json)


@app.command("rotate-keys")
def rotate_keys(
    context: typer.Context,
    site: SiteName,
    devices: Annotated[
        bool, typer.Option("--devices", help="Also those of devices and gateways, which must be told.")
    ] = False,
    host: Annotated[
        str | None,
        typer.Option(
            "--hub",
            metavar="HOST",
            help="For a site on another machine: address of this one, as that one reaches it.",
            show_default="as before",
        ),
    ] = None,
    into: Into = None,
    expires: Expires = "1d",
    as_json: AsJson = False,
) -> None:
    """Replace the keys of a site. Its jobs go on, and the old keys open nothing any more.

    A site on another machine makes its keys there: this writes a bundle, and `towpath join` with it, on that
    machine, replaces them.

    Example: `towpath site rotate-keys barge`
    """
    home = home_of(context)
    check_services_here(home, asyncio.run(mesh_of_processes(home)))
    if MeshState.load(home).site(site).is_elsewhere:
        expires_s = _expiry(expires)
        bundle = _invite(home, lambda state: renewing(state, site, host, expires_s, now()))
        bundle = bundle.model_copy(update={"with_devices": devices})
        return _hand_out(home, bundle, into, as_json=as_json)
    _rotate_here(home, site, with_devices=devices)
    if as_json:
        return print_json({"rotated": site})
    print(f"{site} has new keys" + ("; `towpath access` shows those of devices" if devices else ""))


def _rotate_here(home: Home, site: str, *, with_devices: bool) -> None:
    """Replace the keys of a site on this machine, and return when it uses them."""
    with exclusively(home):
        state = rotated(MeshState.load(home), site, with_devices=with_devices)
        if state.tls is not None:
            # Here: the library takes a while to load.
            from towpath.mesh.certificates import with_certificates

            state = with_certificates(state, home)
        state.save(home)
    lifecycle.reload(home)
    if find(home.run, SUPERVISOR) is not None:
        with working("replacing the keys …"):
            asyncio.run(_until_up(home, site, KEYS_S, field="site"))


def _expiry(expires: str) -> float:
    expires_s = seconds_of(expires, "expires")
    if not 0 < expires_s <= LONGEST_EXPIRY_S:
        raise TowpathError(
            ErrorCode.INVALID, "not a time for a bundle", field="expires", value=expires, allowed="up to 30d"
        )
    return expires_s


def _invite(home: Home, inviting: Callable[[MeshState], tuple[MeshState, Bundle]]) -> Bundle:
    with exclusively(home):
        state, bundle = inviting(MeshState.load(home))
        if state.tls is not None:
            # Here: the library takes a while to load.
            from towpath.mesh.certificates import authority_of, with_certificates

            state = with_certificates(state, home)  # The hub's has the name by which that machine reaches it.
            bundle = bundle.model_copy(update={"authority": authority_of(home)})
        state.save(home)
    return bundle


def _hand_out(home: Home, bundle: Bundle, into: Path | None, *, as_json: bool) -> None:
    path = (into or Path(f"{bundle.site}.bundle")).absolute()
    write_private_file(path, bundle.model_dump_json(indent=2) + "\n")
    lifecycle.reload(home)
    if as_json:
        return print_json({"bundle": str(path), "expires": bundle.invitation.expires})
    say(f"it expires at {bundle.invitation.expires:%Y-%m-%d %H:%M} UTC; on the other machine:")
    print(f"towpath join {path.name}")


@app.command()
def remove(context: typer.Context, site: SiteName, as_json: AsJson = False) -> None:
    """Remove a site on another machine: its keys open nothing any more. It must have no jobs.

    Example: `towpath site remove barge`
    """
    home = home_of(context)
    check_services_here(home, asyncio.run(mesh_of_processes(home)))
    jobs = asyncio.run(ask(home, ListJobs())).jobs
    there = [view.spec.name for view in jobs if view.site == site]
    if there:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{', '.join(there)} run(s) there",
            field="site",
            value=site,
            allowed="a site without jobs: move or remove them",
        )
    with exclusively(home):
        without_site(MeshState.load(home), site).save(home)
    lifecycle.reload(home)
    if needing := [view.spec.name for view in jobs if site in _sites_of(view.spec)]:
        say(f"its streams, or standbys there, are gone for: {', '.join(needing)}")
    if as_json:
        return print_json({"removed": site})
    print(f"removed {site}")


def _sites_of(spec: JobSpec) -> set[str]:
    """Return the sites that a job needs besides its own."""
    standby = [] if spec.standby is None else [spec.standby.site]
    return {spec.output_site, *(each.site for each in spec.inputs), *standby}


def join(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="File of `towpath site add`, or of `towpath spare add`.")
    ],
    within_s: Annotated[
        float, typer.Option("--within", min=1, help="Seconds until the site must be up.")
    ] = JOIN_S,
    install_service: Annotated[
        bool,
        typer.Option("--install-service", help="Have systemd start the site with the machine, and now."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Join a mesh: run one site of it, or a spare coordinator. Only connections to the hub are made.

    The site's keys are made here. It needs the hub's ports for clients, sites and Redis. With a bundle of
    `towpath site rotate-keys`, the site gets other keys, and its jobs go on.

    Example: `towpath join barge.bundle --install-service`
    """
    home = home_of(context)
    bundle = _read(file)
    if isinstance(bundle, SpareBundle):
        return join_as_spare(home, bundle, within_s, install_service=install_service, as_json=as_json)
    with working("joining …"):
        asyncio.run(_ask_in(home, _own_state(home, bundle), bundle, within_s))
    lifecycle.reload(home)
    if install_service:
        lifecycle.down(home)  # From here on it is systemd's.
        say(f"installed {systemd_unit.install(home, bundle.site)}")
    start_site(home, within_s, as_json=as_json, start=not install_service)


def start_site(home: Home, within_s: float, *, as_json: bool, start: bool = True) -> None:
    """Run the site of a machine that has joined, and return when it is up. Raises `TowpathError`.

    Without `start`, someone else starts it.
    """
    state = MeshState.load(home)
    assert state.joined is not None
    if state.spec.tls.enabled and state.site(state.joined).tls is None:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the site has no certificate yet, and would speak in clear",
            field="site",
            value=state.joined,
            allowed="`towpath join` with its bundle",
        )
    with working("starting …"):
        if start:
            lifecycle.start(home)
        asyncio.run(_until_up(home, state.joined, within_s))
    access = state.site(state.joined)
    if as_json:
        return print_json({"site": state.joined, "mqtt": f"{access.mqtt_host}:{access.mqtt_port}"})
    print(f"{state.joined} is up; devices publish to {access.mqtt_host}:{access.mqtt_port}")


def leave(
    context: typer.Context,
    force: Annotated[bool, typer.Option("--force", help="Even if jobs run here: they stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stop the site, or the spare coordinator, of this machine, and forget its keys. Its data stays.

    Example: `towpath leave`
    """
    home = home_of(context)
    state = asyncio.run(load_mesh(home))
    if state.spare is not None:
        return _end(home, name_of(state.spare), as_json=as_json)
    if state.joined is None:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED, "this machine has not joined a mesh", field="home", value=str(home.root)
        )
    if not force:
        _check_idle(home, state.joined)
    _end(home, state.joined, as_json=as_json)
    say(f"`towpath site remove {state.joined}` on the hub's machine forgets it")


def _end(home: Home, name: str, *, as_json: bool) -> None:
    """Stop what this machine runs, and forget its keys. The mesh's file goes last: an interrupted end can be
    repeated."""
    systemd_unit.uninstall(name)
    lifecycle.down(home)
    for each in (home.nats(name) / "nats.conf", home.redis / "redis.conf", home.devices(name)):
        each.unlink(missing_ok=True)
    for each in (home.engine(name), home.certificates):
        shutil.rmtree(each, ignore_errors=True)
    home.state.unlink()
    if as_json:
        return print_json({"left": name})
    print(f"{name} has left")


def _read(file: Path) -> Bundle | SpareBundle:
    try:
        content = file.read_bytes()
        return (SpareBundle if _is_of_spare(content) else Bundle).from_json(content)
    except FileNotFoundError:
        raise TowpathError(ErrorCode.INVALID, "no such file", field="BUNDLE", value=str(file)) from None
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error


def _is_of_spare(content: bytes) -> bool:
    try:
        return "spare" in json.loads(content)
    except (ValueError, TypeError):
        return False


def _own_state(home: Home, bundle: Bundle) -> MeshState:
    """Return the saved site of this machine, with the keys that were made for this bundle: now, or in an
    earlier attempt."""
    home.create()
    with exclusively(home):
        if not home.state.exists():
            joining_mesh(bundle).save(home)
            home.create_site(bundle.site)
        state = MeshState.load(home)
        if state.joined != bundle.site:
            raise another_mesh(home)
        state = with_keys_for(state, bundle)
        state.save(home)
    return state


async def _ask_in(home: Home, state: MeshState, bundle: Bundle, within_s: float) -> None:
    """Tell the hub the site's keys, and keep its certificate. Raises `TowpathError`."""
    guest, site = bundle.invitation, _keys_for(state, bundle)
    request, tls = _request(home, bundle)
    try:
        bus = await Bus.connect(
            state.hub_url, guest.user, guest.password, name="join", within_s=within_s, tls=tls
        )
    except TowpathError as error:
        raise TowpathError(
            ErrorCode.UNREACHABLE,
            f"the hub does not answer at {state.hub_url}, or the bundle is no longer valid",
            field="BUNDLE",
            allowed="a new one of `towpath site add`",
        ) from error
    async with bus:
        joined = await bus.request(join_command(site, request), deadline_s=within_s, attempt_s=ATTEMPT_S)
    if joined.certificate is not None:
        from towpath.mesh.certificates import received

        site = received(site, home, joined.certificate)
    with exclusively(home):
        with_renewed(MeshState.load(home), site).save(home)


def _keys_for(state: MeshState, bundle: Bundle) -> SiteAccess:
    """Return the site with the keys that were made for this bundle."""
    renewed = state.renewed
    if renewed is not None and renewed.invitation == bundle.invitation:
        return renewed
    return state.site(bundle.site)


def _request(home: Home, bundle: Bundle) -> tuple[str | None, ssl.SSLContext | None]:
    """Return the request for a certificate, and with what the hub is checked, in a mesh that encrypts."""
    if bundle.authority is None:
        return None, None
    # Here: the library takes a while to load.
    from towpath.mesh.certificates import authority_file, certificate_request

    request = certificate_request(home, bundle.site, bundle.authority)
    return request, client_context(str(authority_file(home)))


async def _until_up(home: Home, site: str, within_s: float, field: str = "--within") -> None:
    try:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    await jobs_at(home, site)
                except TowpathError:
                    await pause(LOOK_EVERY_S)
                else:
                    return
    except TimeoutError:
        raise TowpathError(
            ErrorCode.DEADLINE, f"{site} is not up after {within_s:g} s, see {home.logs}", field=field
        ) from None


def _check_idle(home: Home, site: str) -> None:
    try:
        jobs = [status.job for status in asyncio.run(jobs_at(home, site))]
    except TowpathError:
        return  # It does not run.
    if jobs:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{', '.join(jobs)} run(s) here",
            field="site",
            value=site,
            allowed="move them first, or --force",
        )
