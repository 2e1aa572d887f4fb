"""Connections come back by themselves when the server ends their login, with the password that holds then."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import nats.errors
import pytest
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError

from running.servers import Server, free_port
from running.waiting import eventually
from towpath.agent.keys import renew_pool
from towpath.bus.connecting import Login, connect_once, connect_persistently
from towpath.contracts.site import MeshSpec, SiteSpec
from towpath.mesh.binaries import nats_server_binary
from towpath.mesh.joining import rotated
from towpath.mesh.provisioning import new_mesh
from towpath.streams.log_reader import Access, LogReader

USER = "jfk.engine"


class Site:
    """A site's server with one user."""

    def __init__(self, directory: Path) -> None:
        self.password = "first"
        self.credentials = directory / "credentials.json"
        self._configuration = directory / "nats.conf"
        self._streams = directory / "streams"
        self.server = Server([nats_server_binary(), "-c", str(self._configuration)], free_port())
        self.write()

    def write(self) -> None:
        self._configuration.write_text(
            f'listen: "127.0.0.1:{self.server.port}"\njetstream {{ store_dir: "{self._streams}" }}\n'
            f'authorization {{ user: "{USER}", password: "{self.password}" }}\n'
        )
        self.credentials.write_text(json.dumps({"user": USER, "password": self.password}))

    def replace_password(self) -> None:
        """Replace the password while the server runs, as an agent does."""
        self.password = "second"
        self.write()
        assert self.server.process is not None
        self.server.process.send_signal(signal.SIGHUP)

    @property
    def login(self) -> Login:
        return Login(self.server.url, USER, lambda: self.password)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path)
    await site.server.start()
    yield site
    await site.server.kill()


async def test_connection_when_its_password_is_replaced_then_logs_in_with_the_new_one(site: Site) -> None:
    connection = await connect_persistently(site.login, "test")
    lost = connection.stats["reconnects"]

    site.replace_password()

    await eventually(lambda: connection.stats["reconnects"] > lost and connection.is_connected)
    await connection.flush()
    await connection.close()
    with pytest.raises(nats.errors.Error, match="Authorization Violation"):
        await connect_once(Login(site.server.url, USER, "first"), "thief")


async def test_log_reader_when_its_password_is_replaced_then_reads_on(site: Site) -> None:
    connection = await connect_persistently(site.login, "test")
    await connection.jetstream().add_stream(name="IN", subjects=["site.>"])
    await connection.jetstream().publish("site.a", b"1")
    reader = LogReader(Access(site.server.url, str(site.credentials)))
    assert [len(page) for page in reader.read("IN", 0, 1)] == [1]

    site.replace_password()
    await eventually(lambda: connection.stats["reconnects"] > 0 and connection.is_connected)
    await connection.jetstream().publish("site.a", b"2")

    assert [message.payload for page in reader.read("IN", 0, 2) for message in page] == [b"1", b"2"]
    await connection.close()


async def test_redis_client_when_it_gets_new_keys_then_its_former_connections_are_used_no_more(
    redis_server: Server,
) -> None:
    mesh = new_mesh(MeshSpec(sites=[SiteSpec(name="jfk")]))
    old, new = mesh.site("jfk"), rotated(mesh, "jfk", with_devices=False).site("jfk")
    client = Redis(port=redis_server.port, username="jfk", password=old.redis.password)
    async with Redis(port=redis_server.port) as owner, client:
        await owner.acl_setuser("jfk", enabled=True, passwords=f"+{old.redis.password}", categories=["+@all"])
        assert await client.ping()
        await owner.acl_setuser("jfk", enabled=True, reset_passwords=True, passwords=f"+{new.redis.password}")
        await owner.execute_command("CLIENT", "KILL", "USER", "jfk")
        with pytest.raises(AuthenticationError):
            await client.ping()

        await renew_pool(client, new)

        assert await client.ping()
