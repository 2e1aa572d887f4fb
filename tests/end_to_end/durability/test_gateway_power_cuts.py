"""A gateway whose power is cut in the middle of everything: what it had not synced is gone."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from running.gateways import (
    address_of,
    applications,
    broker_settings,
    install,
    listening,
    online,
    packed,
    running_gateway,
    sense,
)
from running.mosquitto import foreign_mosquitto
from running.power import disk_at
from running.waiting import eventually
from towpath.contracts.gateway import ACCOUNT
from towpath.gateways.client import GatewayClient

CUTS = 6
EVENTS = 2_000


async def test_gateway_when_its_power_is_cut_then_packages_are_whole_and_a_number_means_one_result(
    tmp_path: Path,
) -> None:
    chance = random.Random(5)
    with disk_at(tmp_path / "gateway/data", tmp_path / "disk") as disk:
        async with (
            foreign_mosquitto(tmp_path / "broker") as broker,
            running_gateway(tmp_path / "gateway", broker_settings(broker)) as gateway,
            GatewayClient(address_of(broker), ACCOUNT) as client,
            listening(address_of(broker), "site/#") as came,
        ):
            await online(client)
            assert (await install(client, packed(tmp_path, version="0"))).code == 200
            sensing = asyncio.create_task(
                sense(address_of(broker), [{"n": number} for number in range(EVENTS)])
            )
            for cut in range(1, CUTS + 1):
                # The request may be lost with the power, or carried out: its repetition has the same outcome.
                body, request = packed(tmp_path, version=str(cut)), f"install-{cut}"
                asking = asyncio.create_task(install(client, body, request_id=request))
                await asyncio.sleep(chance.uniform(0.0, 0.5))  # Any moment may be that of the cut.
                await gateway.kill()
                await asyncio.to_thread(disk.cut_power)
                await gateway.start()
                assert (await asking).code == 200
                await eventually(lambda version=str(cut): _runs(client, version))
            await sensing
            await eventually(lambda: {each["n"] for each in came} == {*range(EVENTS)})

            results: dict[tuple[str, int], set[int]] = {}
            for each in came:
                results.setdefault((each["log"], each["sequence"]), set()).add(each["n"])
            assert all(len(meant) == 1 for meant in results.values())


async def _runs(client: GatewayClient, version: str) -> bool:
    (found,) = (await applications(client)).values()
    assert found["version"] == version
    return found["state"] == "running"
