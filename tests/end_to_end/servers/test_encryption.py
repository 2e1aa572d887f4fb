"""A mesh that encrypts, on real servers: who gets through, and who does not."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiomqtt
import nats
import nats.errors
import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from running.mesh import Mesh, answers_request, running_mesh
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.bus import Bus
from towpath.bus.connecting import flushed
from towpath.contracts.uplink import ReportUplinks, UplinkReport
from towpath.mesh.certificates import with_certificates
from towpath.mesh.home import Home
from towpath.mesh.nats_config import site_config
from towpath.mesh.state import SiteAccess
from towpath.mesh.tls_files import TlsFiles

REPORT = UplinkReport(revision=1, uplinks=[])

REFUSED_S = 3.0
"""A site's server tries again every second: it has been refused by then."""


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with running_mesh(tmp_path_factory.mktemp("encrypted"), tls=True) as mesh:
        yield mesh


def shown_at(mesh: Mesh, home: Home) -> TlsFiles:
    """Return a certificate of jfk's name, of another mesh's authority, beside the authority of this one."""
    foreign = with_certificates(mesh.state, home.create()).site("jfk").tls
    assert foreign is not None
    return foreign.model_copy(update={"ca_file": mesh.state.authority})


def redis_at(mesh: Mesh, **tls: object) -> Redis:
    access = mesh.state.site("jfk")
    host, port = mesh.state.redis_remote(access)
    return Redis(
        host=host,
        port=port,
        username=access.redis.user,
        password=access.redis.password,
        socket_timeout=WITHIN_S,
        retry=Retry(NoBackoff(), 0),
        **tls,  # type: ignore[arg-type]
    )


async def test_command_when_the_mesh_encrypts_then_it_reaches_a_site_and_its_answer_the_hub(
    encrypted: Mesh,
) -> None:
    state, access = encrypted.state, encrypted.state.site("jfk")
    hub, site = state.login("coordinator"), access.login("agent")

    async def report(_: ReportUplinks) -> UplinkReport:
        return REPORT

    async with (
        await Bus.connect(state.hub_url, hub.user, hub.password, name="c", tls=state.hub_tls()) as asking,
        await Bus.connect(access.nats_url, site.user, site.password, name="a") as answering,
    ):
        await answering.serve(ReportUplinks, report, site="jfk")
        await flushed(answering.connection)
        answer = await asking.request(ReportUplinks(site="jfk"), deadline_s=WITHIN_S, attempt_s=1)

    assert answer == REPORT


@promise("encrypted")
@pytest.mark.parametrize("shows", ["nothing", "another authority's"])
async def test_site_when_it_shows_no_certificate_of_this_authority_then_the_hub_refuses_its_server(
    encrypted: Mesh, tmp_path: Path, shows: str
) -> None:
    access = encrypted.state.site("jfk")
    tls = shown_at(encrypted, Home(tmp_path)) if shows != "nothing" else None

    async with with_config(encrypted, "jfk-nats", _without_certificate(encrypted, access, tls)):
        await eventually(lambda: "tls" in encrypted.home.log("jfk-nats").read_text().lower())
        async with encrypted.operator() as operator:
            await asyncio.sleep(REFUSED_S)
            linked = await answers_request(operator, "$JS.jfk.API.STREAM.NAMES")

    assert not linked
    async with encrypted.operator() as operator:
        await eventually(lambda: answers_request(operator, "$JS.jfk.API.STREAM.NAMES"))


@asynccontextmanager
async def with_config(mesh: Mesh, server: str, text: str) -> AsyncIterator[None]:
    """Run a server with another configuration, and in the end with its own again."""
    path = Path(mesh.specs[server].command[-1])
    await mesh.stop(server)
    own = await asyncio.to_thread(path.read_text)
    await asyncio.to_thread(path.write_text, text)
    try:
        await mesh.start(server)
        yield
    finally:
        await mesh.stop(server)
        await asyncio.to_thread(path.write_text, own)
        await mesh.start(server)


def _without_certificate(mesh: Mesh, access: SiteAccess, tls: TlsFiles | None) -> str:
    sites = {**mesh.state.sites, "jfk": access.model_copy(update={"tls": tls})}
    text = site_config(mesh.state.model_copy(update={"sites": sites}), "jfk", mesh.home)
    if tls is None:
        # It trusts the hub, and has the password, but no certificate.
        trusting = {"tls": {"ca_file": mesh.state.authority, "handshake_first": True}}
        config = json.loads(text)
        config["leafnodes"]["remotes"][0] |= trusting
        return json.dumps(config)
    return text


@promise("encrypted")
async def test_device_when_it_does_not_encrypt_then_the_broker_refuses_it(encrypted: Mesh) -> None:
    with pytest.raises(aiomqtt.MqttError):
        async with encrypted.device("jfk", tls_context=None, timeout=5):
            pass

    async with encrypted.device("jfk"):
        pass  # It is connected.


async def test_client_when_it_does_not_know_the_authority_then_it_does_not_trust_the_hub(
    encrypted: Mesh,
) -> None:
    user = encrypted.state.operator
    with pytest.raises((ssl.SSLError, nats.errors.Error, OSError)):
        await nats.connect(
            encrypted.state.hub_url,
            user=user.user,
            password=user.password,
            allow_reconnect=False,
            tls=ssl.create_default_context(),
        )


@promise("encrypted")
async def test_redis_when_a_site_shows_its_certificate_then_it_is_reached_and_otherwise_not(
    encrypted: Mesh, tmp_path: Path
) -> None:
    tls = encrypted.state.site("jfk").tls
    assert tls is not None
    wrong: list[dict[str, object]] = [
        {},
        {"ssl": True, "ssl_ca_certs": tls.ca_file},
        shown_at(encrypted, Home(tmp_path)).redis_options(),
    ]

    chunk = b"x" * 1024**2
    async with redis_at(encrypted, **tls.redis_options()) as redis:
        await redis.xadd("towpath:transfer:x", {"data": chunk})
        assert await redis.xlen("towpath:transfer:x") == 1
    for options in wrong:
        async with redis_at(encrypted, **options) as stranger:
            with pytest.raises((RedisError, OSError)):
                await stranger.xlen("towpath:transfer:x")
