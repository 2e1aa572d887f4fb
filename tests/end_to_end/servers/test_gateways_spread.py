"""A real gateway shares two real brokers: its site changes live, and each result comes to one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from running.gateways import (
    address_of,
    broker_settings,
    install,
    listening,
    online,
    packed,
    requested,
    running_gateway,
    sense,
)
from running.mosquitto import Foreign, foreign_mosquitto
from running.waiting import eventually
from towpath.contracts.gateway import ACCOUNT, CONFIGURATIONS
from towpath.gateways.client import GatewayClient
from towpath.gateways.completeness import Completeness


async def choose(client: GatewayClient, **sites: Foreign) -> dict[str, Any]:
    brokers = {
        name: {"host": "127.0.0.1", "port": site.server.port, "user": "plant", "password": site.password}
        for name, site in sites.items()
    }
    answer = await requested(client, CONFIGURATIONS, "PUT", "delivery", {"sites": brokers})
    assert answer.is_ok, answer
    return answer.body


async def waiting_for(client: GatewayClient) -> dict[str | None, int]:
    answer = await requested(client, CONFIGURATIONS, "GET", "delivery")
    return {route["site"]: route["waiting"] for route in answer.body["routes"]}


async def test_results_when_sites_change_while_one_is_away_and_the_gateway_is_killed_then_each_has_one_site(
    tmp_path: Path,
) -> None:
    async with (
        foreign_mosquitto(tmp_path / "local") as local,
        foreign_mosquitto(tmp_path / "jfk") as jfk,
        foreign_mosquitto(tmp_path / "cloud") as cloud,
        running_gateway(tmp_path / "gateway", broker_settings(jfk), broker_settings(local)) as gateway,
        GatewayClient(address_of(jfk), ACCOUNT) as client,
        listening(address_of(jfk), "site/#") as at_jfk,
        listening(address_of(cloud), "site/#") as at_cloud,
    ):

        async def take(first: int, last: int) -> None:
            await sense(address_of(local), [{"n": n} for n in range(first, last)])

        await online(client)
        assert (await install(client, packed(tmp_path))).is_ok
        await take(0, 50)
        await eventually(lambda: len(at_jfk) >= 50)

        assert (await choose(client, cloud=cloud))["site"] == "cloud"
        await take(50, 100)
        await eventually(lambda: len(at_cloud) >= 50)

        await cloud.end()
        await take(100, 150)

        async def fifty_wait() -> bool:
            return (await waiting_for(client)).get("cloud") == 50

        await eventually(fifty_wait)
        await choose(client, jfk=jfk)
        await gateway.kill()
        await gateway.start()
        await take(150, 200)
        await eventually(lambda: {each["n"] for each in at_jfk} == {*range(50), *range(150, 200)})
        assert (await waiting_for(client))["cloud"] == 50

        await cloud.server.start()
        await eventually(lambda: {each["n"] for each in at_cloud} == {*range(50, 150)})

        async def only_jfk() -> bool:
            return [*await waiting_for(client)] == ["jfk"]

        await eventually(only_jfk)
        seen = Completeness()
        for each in at_jfk + at_cloud:
            seen.take(each)
        assert (seen.gaps(), seen.dropped()) == ({}, {"pi01": 0})
        assert not {each["sequence"] for each in at_jfk} & {each["sequence"] for each in at_cloud}
