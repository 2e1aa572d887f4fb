"""Describe the servers of a mesh as processes, and write their configuration."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

from towpath.atomic_write import make_private_directory, write_private_file
from towpath.contracts.data_plane import IN_STREAM
from towpath.mesh.binaries import nats_server_binary, redis_server_binary
from towpath.mesh.device_users import known_devices
from towpath.mesh.home import Home
from towpath.mesh.nats_config import ACCOUNT, hub_account, hub_config, site_config
from towpath.mesh.redis_config import redis_config
from towpath.mesh.service_table import REDIS_DOOR
from towpath.mesh.state import MeshState, reachable
from towpath.processes import ChildSpec, version_of

STOP_S = 5.0
"""Time for a server to flush its streams when it ends."""


def hub_servers(state: MeshState, home: Home) -> list[ChildSpec]:
    """Write the configurations of the hub's nats-servers, one or several, and return their processes.

    For a hub that Towpath does not run, write the account that it must have, and return none.
    """
    listen = state.spec.listen
    if state.spec.hub.is_elsewhere:
        _write(home.hub / "account.conf", hub_account(state))
    return [
        _nats(
            node.name,
            hub_config(state, home, node),
            home.hub_node(node.name),
            home,
            listen,
            node.port,
        )
        for node in state.hub_nodes
    ]


def site_server(state: MeshState, site: str, home: Home, *, admits_devices: bool = True) -> ChildSpec:
    """Write the configuration of a site's nats-server, and return its process `<site>-nats`.

    Before IN exists the server must not admit devices: it would acknowledge events that no stream keeps.
    Users of single devices are no part of its version: it takes them in while it runs, by SIGHUP.
    """
    access = state.site(site)
    listen, port = access.nats_listen, access.spec.nats_port
    version = site_config(state, site, home, admits_devices=admits_devices)
    devices = [] if access.is_bridged else known_devices(home.devices(site))
    text = site_config(state, site, home, admits_devices=admits_devices, devices=devices)
    return _nats(f"{site}-nats", text, home.nats(site), home, listen, port, version=version)


def keeps_events(site: str, home: Home) -> bool:
    """Tell if the site's server has the stream IN on its disk."""
    return (home.nats(site) / "jetstream" / ACCOUNT / "streams" / IN_STREAM).is_dir()


def redis_server(state: MeshState, home: Home) -> ChildSpec:
    """Write the configuration of the mesh's Redis, and return its process."""
    path, version = _write(home.redis / "redis.conf", redis_config(state, home))

    async def ready() -> bool:
        return await redis_answers(state)

    return ChildSpec(
        name="redis",
        command=(redis_server_binary(), str(path)),
        log=home.log("redis"),
        ready=ready,
        stop_s=STOP_S,
        version=version,
    )


def redis_door(state: MeshState, home: Home) -> ChildSpec:
    """Return the process that encrypts the connections of sites to Redis. It reads the saved mesh."""
    host, port = reachable(state.spec.listen), state.spec.redis_port
    shown = state.tls.model_dump_json() if state.tls else ""

    async def ready() -> bool:
        return await port_open(host, port)

    return ChildSpec(
        name=REDIS_DOOR,
        command=(sys.executable, "-m", "towpath.redis_door", "--home", str(home.root)),
        log=home.log(REDIS_DOOR),
        environment={"PYTHONUNBUFFERED": "1"},
        ready=ready,
        after=("redis",),
        version=version_of(f"{state.spec.listen} {port} {state.redis_port} {shown}"),
    )


async def port_open(host: str, port: int) -> bool:
    """Return True if a server listens. nats-server opens its ports when its streams are restored."""
    try:
        _, writer = await asyncio.open_connection(host.strip("[]"), port)
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


async def redis_answers(state: MeshState) -> bool:
    """Return True if Redis has loaded its file and answers the coordinator."""
    # Here: most processes that import this start no Redis.
    import redis.asyncio
    import redis.exceptions

    client = redis.asyncio.Redis(
        host=state.redis_host.strip("[]"),
        port=state.redis_port,
        username=state.redis_coordinator.user,
        password=state.redis_coordinator.password,
        socket_timeout=2,
        socket_connect_timeout=2,
    )
    try:
        return bool(await client.ping())  # type: ignore[misc]
    except (redis.exceptions.RedisError, OSError):
        return False
    finally:
        await client.aclose()


def _nats(
    name: str, text: str, directory: Path, home: Home, listen: str, port: int, *, version: str | None = None
) -> ChildSpec:
    path, written = _write(directory / "nats.conf", text)

    async def ready() -> bool:
        return await port_open(reachable(listen), port)

    return ChildSpec(
        name=name,
        command=(nats_server_binary(), "--config", str(path)),
        log=home.log(name),
        ready=ready,
        stop_s=STOP_S,
        version=written if version is None else version_of(version),
    )


def _write(path: Path, text: str) -> tuple[Path, str]:
    make_private_directory(path.parent)
    write_private_file(path, text)
    return path, version_of(text)
