"""Gateways as real processes on a real Mosquitto: commanded, killed, cut off, and nothing lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from running.gateways import (
    GatewayProcess,
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
from running.mosquitto import Foreign, foreign_mosquitto
from running.waiting import eventually
from towpath.contracts.gateway import ACCOUNT, COMMANDS, CONFIGURATIONS, PACKAGES
from towpath.gateway.app import memory_kb
from towpath.gateways.client import DeviceOffline, GatewayClient
from towpath.gateways.completeness import Completeness

MOST_KB = 40_000
"""A gateway has at most so much resident memory."""


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Foreign]:
    async with foreign_mosquitto(tmp_path / "broker") as running:
        yield running


@pytest.fixture
async def gateway(tmp_path: Path, broker: Foreign) -> AsyncIterator[GatewayProcess]:
    async with running_gateway(tmp_path / "gateway", broker_settings(broker)) as running:
        yield running


@pytest.fixture
async def client(broker: Foreign) -> AsyncIterator[GatewayClient]:
    async with GatewayClient(address_of(broker), ACCOUNT) as connected:
        yield connected


async def test_package_when_installed_configured_and_uninstalled_then_its_results_follow(
    tmp_path: Path, broker: Foreign, gateway: GatewayProcess, client: GatewayClient
) -> None:
    await online(client)
    async with listening(address_of(broker), "site/#") as came:
        body = packed(tmp_path)
        assert (await install(client, body)).code == 200
        await sense(address_of(broker), [{"n": n} for n in range(4)])
        await eventually(lambda: len(came) == 4)
        (child,) = gateway.children()

        configuration = {"properties": {"every": "2"}}
        changed = await client.request("pi01", CONFIGURATIONS, "PUT", "configurations/thin", configuration)
        await sense(address_of(broker), [{"n": n} for n in range(4, 8)])
        await eventually(lambda: len(came) == 6)
        read = await client.request("pi01", CONFIGURATIONS, "GET", "configurations/thin")

        assert (changed.body, read.body) == ({"properties": {"every": 2}}, {"properties": {"every": 2}})
        assert gateway.children() == [child]  # It was not restarted.
        assert [(each["sequence"], each["n"]) for each in came] == [
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 3),
            (5, 5),
            (6, 7),
        ]
        assert memory_kb(gateway.process.pid) < MOST_KB  # type: ignore[union-attr]

        removed = await client.request("pi01", PACKAGES, "EXEC", "packages/uninstall", {"name": "thin"})
        listed = await client.request("pi01", PACKAGES, "GET", "packages")
        assert (removed.code, listed.body, gateway.children()) == (200, [], [])
        assert not (gateway.directory / "data/packages/thin").exists()


async def test_configuration_when_it_is_wrong_then_the_answer_names_all_errors(
    tmp_path: Path, gateway: GatewayProcess, client: GatewayClient
) -> None:
    await online(client)
    await install(client, packed(tmp_path))
    changes = {"properties": {"every": 0, "each": 1}}
    answer = await client.request("pi01", CONFIGURATIONS, "PUT", "configurations/thin", changes)
    assert (answer.code, [error["field"] for error in answer.body["errors"]]) == (400, ["each"])
    other = await client.request("pi01", CONFIGURATIONS, "PUT", "configurations/thick", changes)
    assert (other.code, other.body["errors"][0]["allowed"]) == (404, ["thin"])


async def test_request_when_it_is_repeated_then_gets_the_same_answer_and_does_nothing_twice(
    tmp_path: Path, gateway: GatewayProcess, client: GatewayClient
) -> None:
    await online(client)
    body = packed(tmp_path)
    first = await install(client, body, request_id="install-1")
    await client.request("pi01", PACKAGES, "EXEC", "packages/uninstall", {"name": "thin"})
    await gateway.kill()
    await online(client, is_online=False)
    await gateway.start()
    await online(client)
    again = await install(client, body, request_id="install-1")
    assert (first, await applications(client)) == (again, {})
    other = await install(client, body | {"name": "other"}, request_id="install-1")
    assert other.code == 409


@contextlib.asynccontextmanager
async def stalling_server(content: bytes) -> AsyncIterator[tuple[str, asyncio.Event, list[bytes]]]:
    """Serve content over HTTP: the first time half of it, and no end. Then what is asked for."""
    halfway, asked = asyncio.Event(), list[bytes]()
    held: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        asked.append(request)
        start = int(request.split(b"bytes=")[1].split(b"-")[0]) if b"bytes=" in request else 0
        status = b"206 Partial Content" if start else b"200 OK"
        rest = content[start:]
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(rest)))
        if halfway.is_set():
            writer.write(rest)
            writer.close()
        else:
            writer.write(rest[: len(rest) // 2])
            held.append(writer)
            halfway.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/thin.zip", halfway, asked
    finally:
        for writer in held:
            writer.close()
        server.close()


async def test_install_when_the_gateway_is_killed_during_the_download_then_it_goes_on_and_answers(
    tmp_path: Path, gateway: GatewayProcess, client: GatewayClient
) -> None:
    await online(client)
    body = packed(tmp_path, code="#" + "x" * 400_000)
    content = (tmp_path / "thin-1.zip").read_bytes()
    downloads = gateway.directory / "data/downloads"
    async with stalling_server(content) as (url, halfway, asked):
        installing = asyncio.create_task(install(client, body | {"url": url}))
        await halfway.wait()
        await eventually(lambda: any(each.stat().st_size for each in downloads.iterdir()))
        await gateway.kill()
        assert not (gateway.directory / "data/installed/thin.json").exists()
        await gateway.start()
        answer = await installing

    assert (answer.code, len(asked), b"Range: bytes=" in asked[1]) == (200, 2, True)
    assert (await applications(client))["thin"]["state"] == "running"
    assert [*downloads.iterdir()] == []


async def test_install_when_the_gateway_is_killed_at_any_moment_then_each_version_is_whole(
    tmp_path: Path, gateway: GatewayProcess, client: GatewayClient
) -> None:
    await online(client)
    chance = random.Random(1)
    for version in map(str, range(1, 9)):
        installing = asyncio.create_task(install(client, packed(tmp_path, version), request_id=f"v{version}"))
        await asyncio.sleep(chance.uniform(0, 0.25))
        await gateway.kill()
        await gateway.start()
        assert (await installing).code == 200
        assert (await applications(client))["thin"]["version"] == version
        assert len([*(gateway.directory / "data/packages/thin").iterdir()]) == 1


async def test_results_when_the_broker_is_away_and_the_gateway_is_killed_then_each_comes_once(
    tmp_path: Path, broker: Foreign
) -> None:
    async with (
        foreign_mosquitto(tmp_path / "local") as local,
        running_gateway(tmp_path / "gateway", broker_settings(broker), broker_settings(local)) as gateway,
        GatewayClient(address_of(broker), ACCOUNT) as client,
        listening(address_of(broker), "site/#") as came,
    ):
        await online(client)
        assert (await install(client, packed(tmp_path))).code == 200
        await sense(address_of(local), [{"n": n} for n in range(50)])
        await eventually(lambda: len(came) >= 50)
        await broker.end()

        await sense(address_of(local), [{"n": n} for n in range(50, 100)])
        await eventually(lambda: _results(gateway) >= 100)
        await gateway.kill()
        await gateway.start()  # Without a site: applications start all the same.
        await sense(address_of(local), [{"n": n} for n in range(100, 150)])
        await eventually(lambda: _results(gateway) >= 150)

        await broker.server.start()
        seen = Completeness()
        await eventually(lambda: {each["n"] for each in came} == {*range(150)})
        counted = [each for each in came if seen.take(each)]
        assert (seen.gaps(), seen.dropped()) == ({}, {"pi01": 0})
        # In the order of their numbers, and those of the kill at most once more with the number they had.
        assert [each["sequence"] for each in counted] == [*range(1, len(counted) + 1)]
        # Events that were done and not acknowledged when the gateway was killed may be done once more.
        done = [each["n"] for each in counted]
        assert [*dict.fromkeys(done)] == [*range(150)]
        assert {n for n, times in Counter(done).items() if times > 1} <= {*range(50, 100)}


async def test_results_when_the_gateway_is_killed_under_load_then_no_number_has_two_results(
    tmp_path: Path, broker: Foreign, gateway: GatewayProcess, client: GatewayClient
) -> None:
    async with listening(address_of(broker), "site/#") as came:
        assert (await install(client, packed(tmp_path))).code == 200
        chance = random.Random(2)
        sensing = asyncio.create_task(sense(address_of(broker), [{"n": n} for n in range(3000)]))
        for _ in range(4):
            await asyncio.sleep(chance.uniform(0.1, 0.4))
            await gateway.kill()
            await gateway.start()
        await sensing
        await eventually(lambda: {each["n"] for each in came} == {*range(3000)})
        by_number: dict[int, set[int]] = {}
        for each in came:
            by_number.setdefault(each["sequence"], set()).add(each["n"])
        assert all(len(results) == 1 for results in by_number.values())
        assert (sorted(by_number), {each["log"] for each in came}) == (
            [*range(1, len(by_number) + 1)],
            {came[0]["log"]},
        )


def _results(gateway: GatewayProcess) -> int:
    """Count the results on the gateway's disk and those settled before."""
    frames = (
        path.read_bytes().count(b'"application"')
        for path in (gateway.directory / "data/results").glob("*.log")
    )
    return sum(frames)


async def test_application_when_it_ends_again_and_again_then_is_reported_and_others_go_on(
    tmp_path: Path, broker: Foreign, gateway: GatewayProcess, client: GatewayClient
) -> None:
    await online(client)
    greedy = "def grow(event, parameters):\n    event['x'] = len(bytearray(10**9))\n    return event\n"
    suicide = "import os\ndef leave(event, parameters):\n    os._exit(3)\n"
    own = {"input": {"topics": ["bad/#"]}, "output": "site/bad", "properties": {}}
    for name, code, function in (("greedy", greedy, "grow"), ("leaving", suicide, "leave")):
        described = [{"operator": "python", "function": f"own_code:{function}"}]
        body = packed(tmp_path, code=code, name=name, operators=described, **own)
        assert (await install(client, body)).code == 200
    assert (await install(client, packed(tmp_path))).code == 200

    async with listening(address_of(broker), "site/#") as came:
        await sense(address_of(broker), [{"n": 1}], "bad/1")
        await sense(address_of(broker), [{"n": 1}])

        async def looping() -> bool:
            found = await applications(client)
            return found["leaving"]["state"] == "crash_loop" and found["greedy"]["rejected"] == 1

        await eventually(looping)
        found = await applications(client)
        assert (found["leaving"]["trouble"], len(came)) == ("exit code 3", 1)
        assert "MemoryError" in found["greedy"]["last_rejection"]


async def test_package_when_its_code_does_not_load_then_the_answer_says_why_and_the_former_one_runs_on(
    tmp_path: Path, gateway: GatewayProcess, client: GatewayClient
) -> None:
    await online(client)
    described = [{"operator": "python", "function": "own_code:f"}]
    broken = packed(tmp_path, code="import nothing_there", operators=described, version="2")
    assert (await install(client, broken)).code == 500
    assert await applications(client) == {}

    assert (await install(client, packed(tmp_path))).code == 200
    answer = await install(client, broken)

    assert answer.code == 500
    assert "No module named 'nothing_there'" in answer.body["errors"][0]["message"]

    async def former_runs() -> bool:
        (found,) = (await applications(client)).values()
        return (found["version"], found["state"]) == ("1", "running")

    await eventually(former_runs)


async def test_install_when_the_gateway_is_on_hold_then_is_refused_until_it_is_released(
    tmp_path: Path, gateway: GatewayProcess, client: GatewayClient
) -> None:
    await online(client)
    body = packed(tmp_path)
    await client.request("pi01", COMMANDS, "EXEC", "hold")
    assert (await install(client, body, request_id="i")).code == 423
    (gateway.directory / "data/hold").unlink()  # As a program on the device does it.
    assert (await install(client, body, request_id="i")).code == 200


async def test_device_when_it_is_away_then_a_request_fails_at_once(
    gateway: GatewayProcess, client: GatewayClient
) -> None:
    await online(client)
    assert await gateway.end() == 0
    await online(client, is_online=False)
    with pytest.raises(DeviceOffline) as offline:
        await client.request("pi01", PACKAGES, "GET", "packages")
    with pytest.raises(DeviceOffline) as unknown:
        await client.request("pi99", PACKAGES, "GET", "packages", timeout_s=0.5)
    assert (offline.value.sent, unknown.value.sent, unknown.value.device) == (False, True, "pi99")
