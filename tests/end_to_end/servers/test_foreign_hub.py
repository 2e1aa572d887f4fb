"""A NATS deployment that Towpath did not start is the hub of a mesh, beside what it does for others."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import psutil
import pytest
from nats.aio.client import Client

from running.command_line import CommandLine
from running.leftovers import kill_all
from running.mesh import answers_request
from running.places import ROOT
from running.servers import Server, free_port
from running.waiting import WITHIN_S, eventually
from towpath.artefacts.archive import digest_of
from towpath.artefacts.hub_store import fetch
from towpath.bus import Bus, follow_events
from towpath.contracts.commands import ListSites
from towpath.contracts.data_plane import api_prefix
from towpath.contracts.errors import TowpathError
from towpath.contracts.site import HubSpec, MeshSpec, SiteSpec, SiteState
from towpath.contracts.tls import TlsSpec
from towpath.mesh.binaries import nats_server_binary
from towpath.mesh.home import Home
from towpath.mesh.lifecycle import down, processes, up
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.provisioning import provision
from towpath.mesh.state import MeshState
from towpath.mesh.tls_files import client_context
from towpath.processes import listed

SPARE = "coordinator-4"

PLANS = ROOT / "examples" / "plans"
PLAN = (str(PLANS / "averages.yaml"), "--catalogue", str(PLANS / "gateways.yaml"))

GO_ON_S = 10.0
"""Seconds within which commands must go on after the machine of the services is lost."""

CONFIG = """
server_name: company
port: {port}
max_payload: 8MB
jetstream {{ store_dir: {directory} }}
tls {{ cert_file: "{shown}", key_file: "{shown}", handshake_first: auto }}
leafnodes {{
  host: 127.0.0.1
  port: {leaf_port}
  tls {{ cert_file: "{shown}", key_file: "{shown}", handshake_first: true }}
}}
system_account: ADMIN
accounts {{
  ADMIN: {{ users: [{{user: admin, password: secret}}] }}
  SHOP: {{ jetstream: enabled, users: [{{user: shop, password: secret}}] }}
  MESH: {{ include {account} }}
}}
"""
"""As its people wrote it, with one line for Towpath."""


class Company:
    """A NATS deployment with users of its own, which becomes the hub of a mesh."""

    def __init__(self, directory: Path) -> None:
        self.home = Home(directory / "home")
        self.server = Server([nats_server_binary(), "-c", str(directory / "nats.conf")], free_port())
        leaf_port = free_port()
        # Any authority would do. This is that of a mesh of its own.
        encrypted = MeshSpec(sites=[SiteSpec(name="any")], tls=TlsSpec(enabled=True))
        shown = provision(Home(directory / "authority"), encrypted).tls
        assert shown is not None
        self.tls = client_context(shown.ca_file)
        (directory / "nats.conf").write_text(
            CONFIG.format(
                port=self.server.port,
                leaf_port=leaf_port,
                shown=shown.certificate_file,
                directory=directory / "streams",
                # Relative to the configuration.
                account=(self.home.hub / "account.conf").relative_to(directory),
            )
        )
        self.hub = HubSpec(
            urls=[f"tls://127.0.0.1:{self.server.port}"],
            leaf_urls=[f"tls://127.0.0.1:{leaf_port}"],
            ca_file=shown.ca_file,
        )

    async def up(self, *sites: str) -> None:
        """Bring the mesh up with these sites. Its account is there then."""
        spec = MeshSpec(sites=[SiteSpec(name=name) for name in sites], hub=self.hub)
        await asyncio.to_thread(up, self.home, spec)
        await eventually(lambda: all(f"{name}.leaf" in self._account() for name in sites))

    def _account(self) -> str:
        path = self.home.hub / "account.conf"
        return path.read_text() if path.exists() else ""

    def reload(self) -> None:
        """Have the deployment read the account again, as its people do when a site is added."""
        assert self.server.process is not None
        self.server.process.send_signal(signal.SIGHUP)

    @asynccontextmanager
    async def shop(self) -> AsyncIterator[Client]:
        client = await nats.connect(self.server.url, user="shop", password="secret", tls=self.tls)
        yield client
        await client.close()


@pytest.fixture
async def company(tmp_path: Path) -> AsyncIterator[Company]:
    company = Company(tmp_path)
    try:
        await company.up("jfk")
        await company.server.start()
        yield company
    finally:
        await asyncio.to_thread(down, company.home)
        await company.server.kill()


async def fetch_at_site(state: MeshState) -> None:
    """Ask the hub for user code from a site."""
    jfk = state.site("jfk")
    login = jfk.login("agent")
    async with await Bus.connect(jfk.nats_url, login.user, login.password, name="test") as agent:
        await fetch(agent.connection, digest_of(b"nothing of the kind"))


async def test_mesh_when_its_hub_is_a_deployment_of_others_then_works_there_and_leaves_theirs_alone(
    company: Company,
) -> None:
    async with company.shop() as shop:
        await shop.jetstream().add_stream(name="ORDERS", subjects=["towpath.v1.event.>"])
        state = MeshState.load(company.home)
        url, login, tls = state.hub_url, state.operator, state.hub_tls()
        async with await Bus.connect(url, login.user, login.password, name="test", tls=tls) as operator:

            async def sites_up() -> list[str]:
                sites = (await operator.request(ListSites(), deadline_s=WITHIN_S)).sites
                return [site.site for site in sites if site.state is SiteState.UP]

            await eventually(sites_up)
            await company.up("jfk", "lga")
            company.reload()

            async def both_are_up() -> bool:
                return await sites_up() == ["jfk", "lga"]

            await eventually(both_are_up)
            for site in ("jfk", "lga"):
                assert await answers_request(operator.connection, f"{api_prefix(site)}.STREAM.NAMES")
            with pytest.raises(TowpathError, match="the hub no longer has this artefact"):
                await fetch_at_site(state)
            stored = follow_events(operator, from_start=True)
            events = [json.dumps(await anext(stored)) for _ in range(2)]
        orders = await shop.jetstream().stream_info("ORDERS")

    assert all("changed" in event or "coordinator.leads" in event for event in events)
    assert orders.state.messages == 0
    assert "hub" not in {process.name for process in processes(company.home)}


async def test_spare_when_the_machine_of_the_services_is_lost_then_leads_and_knows_what_was_asked(
    company: Company, tmp_path: Path
) -> None:
    here, spare = CommandLine(company.home.root), CommandLine(tmp_path / "spare")
    bundle = str(tmp_path / "spare.bundle")
    try:
        await asyncio.to_thread(here.succeed, "spare", "add", "--into", bundle)
        joined = await asyncio.to_thread(spare.succeed, "join", bundle)
        await asyncio.to_thread(here.succeed, "plan", "apply", *PLAN, "--no-wait")

        await asyncio.to_thread(kill_all, lambda: running(company.home))
        lost_at = time.monotonic()
        known = await asyncio.to_thread(spare.json, "plan", "status", "averages")
        took_s = time.monotonic() - lost_at
        await asyncio.to_thread(spare.succeed, "plan", "uninstall", "averages", "--no-wait")
        leading = await asyncio.to_thread(spare.json, "coordinators")

        await company.up("jfk")
        await eventually(lambda: asyncio.to_thread(stands_by, here))
        history = await asyncio.to_thread(here.json, "plan", "history", "averages")
    finally:
        await asyncio.to_thread(down, Home(spare.home))

    assert f"{SPARE} stands by" in joined
    assert known["version"] == 1
    assert leading["leader"] == SPARE
    assert took_s < GO_ON_S
    assert [version["version"] for version in history["versions"]] == [2, 1]


def running(home: Home) -> list[psutil.Process]:
    """Return the processes of a mesh, its supervisor first: it must restart none."""
    records = sorted(listed(home.run), key=lambda record: record.name != SUPERVISOR)
    return [record.process for record in records if record.process is not None]


def stands_by(here: CommandLine) -> bool:
    found = here.json("coordinators")
    return found["leader"] == "coordinator" and found["spares"] == [SPARE]
