"""Gateways at a site whose broker is nats-server: control topics, the login, and results in IN."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

from running.gateways import (
    address_of,
    broker_settings,
    install,
    online,
    packed,
    running_gateway,
    sense,
)
from running.mesh import Mesh
from running.mosquitto import foreign_mosquitto
from running.waiting import eventually
from towpath.contracts.data_plane import IN_STREAM
from towpath.contracts.gateway import ACCOUNT
from towpath.contracts.site import Retention
from towpath.gateways.client import GatewayClient
from towpath.gateways.completeness import Completeness
from towpath.mesh.site_broker import gateway_broker, site_broker
from towpath.mqtt.connection import MqttConnection
from towpath.streams.pages import read_after
from towpath.streams.streams import SiteStreams


async def test_gateway_when_its_site_has_a_server_of_its_own_then_is_commanded_and_feeds_in(
    mesh: Mesh, tmp_path: Path
) -> None:
    access = mesh.state.site("jfk")
    assert access.gateway is not None
    password = tmp_path / "gateway.password"
    password.write_text(access.gateway.password)
    site = {"host": access.mqtt_host, "port": access.mqtt_port}
    login = {"user": access.gateway.user, "password_file": str(password)}
    address = gateway_broker(access)
    async with contextlib.AsyncExitStack() as stack:
        agent = await stack.enter_async_context(mesh.agent("jfk"))
        await SiteStreams(agent, "jfk", Retention()).ensure_in()
        local = await stack.enter_async_context(foreign_mosquitto(tmp_path / "local"))
        gateway = await stack.enter_async_context(
            running_gateway(tmp_path / "gateway", site | login, broker_settings(local))
        )
        client = await stack.enter_async_context(GatewayClient(address, ACCOUNT))
        await online(client)
        body = packed(tmp_path, output="site/gateways/thin")
        assert (await install(client, body)).code == 200

        await sense(address_of(local), [{"n": n} for n in range(20)])
        await gateway.kill()
        await online(client, is_online=False)  # The server publishes the last will.
        await sense(address_of(local), [{"n": n} for n in range(20, 40)])
        await gateway.start()

        async def stored() -> list[dict[str, object]]:
            found = await read_after(agent, "jfk", IN_STREAM, 0)
            return [json.loads(each.body) for each in found if each.subject == "site.gateways.thin"]

        async def all_came() -> bool:
            return {each["n"] for each in await stored()} == {*range(40)}

        await eventually(all_came)
        seen = Completeness()
        for each in await stored():
            seen.take(each)
        assert (seen.gaps(), seen.dropped()) == ({}, {"pi01": 0})


async def test_device_when_it_subscribes_to_control_topics_then_is_refused(mesh: Mesh) -> None:
    access = mesh.state.site("jfk")
    async with mesh.agent("jfk") as agent:
        await SiteStreams(agent, "jfk", Retention()).ensure_in()
    device = site_broker(access, access.device)
    async with MqttConnection(device, "curious", session=False) as connection:
        subscribed = connection.subscribe(["$EDC/#"])
        async with asyncio.timeout(20):
            while not subscribed.done():
                connection.flush()
                await connection.wait_for_news(0.5)
        assert [code.value for code in subscribed.result()] == [0x80]
