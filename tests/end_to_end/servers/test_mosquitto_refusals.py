"""A broker that runs already: reached by address, with TLS and password, or with a plain refusal."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiomqtt
import pytest

from running.mosquitto import OUTPUT, SITE, Foreign, Site, foreign_mosquitto, running_site, send
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.contracts.data_plane import MESSAGE_ID_HEADER, rejected_subject
from towpath.contracts.site import BrokerSpec


@asynccontextmanager
async def site_at(tmp_path: Path, foreign: Foreign, **changes: object) -> AsyncIterator[Site]:
    broker = BrokerSpec.model_validate(foreign.spec.model_dump() | changes)
    async with running_site(tmp_path / "mesh", broker) as site, site.bridged():
        yield site


async def says(site: Site, *words: str) -> None:
    """Wait until the site's status has these words."""

    async def said() -> bool:
        trouble = site.binder.trouble() or ""
        return all(word in trouble for word in words)

    await eventually(said)


@pytest.mark.parametrize("version", [pytest.param("5", marks=promise("mosquitto")), "3.1.1"])
async def test_foreign_broker_when_it_has_an_address_then_devices_and_site_meet_there(
    tmp_path: Path, version: str
) -> None:
    async with (
        foreign_mosquitto(tmp_path / "broker") as foreign,
        site_at(tmp_path, foreign, version=version) as site,
    ):
        await site.works()
        await send(site, "site/a", [b"1", b"2"])
        await site.holds(2)
        async with site.device() as subscriber:
            await subscriber.subscribe(OUTPUT.topic, qos=1)
            await site.emit("j", [b"result"])
            async with asyncio.timeout(WITHIN_S):
                assert (await anext(aiter(subscriber.messages))).payload == b"result"


@pytest.mark.parametrize("version", [pytest.param("5", marks=promise("mosquitto")), "3.1.1"])
async def test_password_when_it_is_wrong_then_the_status_says_so_until_it_is_right(
    tmp_path: Path, version: str
) -> None:
    async with foreign_mosquitto(tmp_path / "broker") as foreign:
        foreign.password_file.write_text("wrong\n")
        async with site_at(tmp_path, foreign, version=version) as site:
            await says(site, "broker.user", "plant", "refuses", "127.0.0.1")
            foreign.password_file.write_text("secret\n")
            await site.works()


async def test_broker_when_it_is_away_then_the_status_says_so_and_events_follow(tmp_path: Path) -> None:
    async with foreign_mosquitto(tmp_path / "broker") as foreign, site_at(tmp_path, foreign) as site:
        await site.works()
        await foreign.end()
        await says(site, str(foreign.server.port))
        await foreign.server.start()
        await send(site, "site/a", [b"1"])
        await site.holds(1)
        await site.works()


async def test_topic_when_the_broker_refuses_it_then_the_status_names_it_and_other_results_come(
    tmp_path: Path,
) -> None:
    acl = tmp_path / "acl"
    acl.write_text(f"user plant\ntopic readwrite site/#\ntopic readwrite {OUTPUT.rejected_topic}\n")
    async with (
        foreign_mosquitto(tmp_path / "broker", f"acl_file {acl}") as foreign,
        site_at(tmp_path, foreign) as site,
        site.device() as subscriber,
    ):
        await subscriber.subscribe(OUTPUT.rejected_topic, qos=1)
        await site.works()
        await site.emit("j", [b"result"])
        await says(site, OUTPUT.topic, "Not authorized")
        headers = {MESSAGE_ID_HEADER: "bad"}
        await site.agent.jetstream().publish(rejected_subject(SITE, SITE, "j", 1), b"bad", headers=headers)
        async with asyncio.timeout(WITHIN_S):
            assert (await anext(aiter(subscriber.messages))).payload == b"bad"


@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_tls_when_the_authority_is_known_then_events_come_and_else_the_status_says_why(
    tmp_path: Path, version: str
) -> None:
    authority, certificate, key = certificates(tmp_path)
    settings = [f"certfile {certificate}", f"keyfile {key}", f"cafile {authority}"]
    settings.append("require_certificate true")
    ours = {"certificate_file": str(certificate), "key_file": str(key)}
    async with foreign_mosquitto(tmp_path / "broker", *settings) as foreign:
        async with site_at(tmp_path / "no", foreign, version=version, tls=True, **ours) as site:
            await says(site, "certificate verify failed")
        trusting = {"tls": True, "ca_file": str(authority), **ours}
        async with site_at(tmp_path / "yes", foreign, version=version, **trusting) as site:
            await site.works()
            await publish_over_tls(foreign, authority, certificate, key, 2500)
            await site.holds(2500)
            assert [m.body for m in await site.stored()] == [str(n).encode() for n in range(1, 2501)]


def certificates(directory: Path) -> tuple[Path, Path, Path]:
    """Make authority, certificate and key for 127.0.0.1, valid for server and client."""
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    options = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
    options += " -addext subjectAltName=IP:127.0.0.1"
    command = ["openssl", *options.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, certificate, key


async def publish_over_tls(
    foreign: Foreign, authority: Path, certificate: Path, key: Path, count: int
) -> None:
    """Numbers from 1 on."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(certificate, key)
    async with aiomqtt.Client(
        "127.0.0.1", foreign.server.port, username="plant", password="secret", tls_context=context
    ) as device:
        for number in range(1, count + 1):
            await device.publish("site/a", str(number).encode(), qos=1)
