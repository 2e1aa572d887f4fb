"""The client of those who command gateways, at a broker that refuses its login for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from running.waiting import eventually
from towpath.contracts.errors import TowpathError
from towpath.gateways.client import GatewayClient
from towpath.mqtt.broker_address import BrokerAddress

ACCEPTED, NOT_AUTHORIZED = 0, 5
SUBSCRIBE = 0x82


class Broker:
    """Answers logins with the present `code`, and takes all subscriptions. MQTT 3.1.1, a packet a time."""

    def __init__(self) -> None:
        self.code = NOT_AUTHORIZED
        self.logins = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.logins += 1
        await self._packet(reader)
        writer.write(bytes([0x20, 2, 0, self.code]))
        while self.code == ACCEPTED and (packet := await self._packet(reader)):
            kind, body = packet
            if kind == SUBSCRIBE:
                writer.write(bytes([0x90, 5, *body[:2], 1, 1, 1]))
        writer.close()

    async def _packet(self, reader: asyncio.StreamReader) -> tuple[int, bytes] | None:
        try:
            kind, length = await reader.readexactly(2)  # All packets of these tests are short.
            return kind, await reader.readexactly(length)
        except asyncio.IncompleteReadError:
            return None


@asynccontextmanager
async def client_at(broker: Broker) -> AsyncIterator[GatewayClient]:
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with GatewayClient(BrokerAddress("127.0.0.1", port, "3.1.1"), "a", "me") as client:
        yield client
    server.close()


async def connects(client: GatewayClient) -> bool:
    try:
        await client.connected(0.1)
    except TowpathError:
        return False
    return True


async def test_client_when_the_broker_refuses_it_once_then_logs_in_again() -> None:
    broker = Broker()
    async with client_at(broker) as client:
        with pytest.raises(TowpathError, match="refuses"):
            await client.connected(10)

        broker.code = ACCEPTED
        await eventually(lambda: connects(client))
        assert broker.logins >= 2


async def test_client_when_it_gets_another_login_then_does_not_wait_to_use_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("towpath.gateways.client.RETRY_FIRST_S", 600.0)
    broker = Broker()
    async with client_at(broker) as client:
        with pytest.raises(TowpathError):
            await client.connected(10)

        broker.code = ACCEPTED
        client.log_in_at(client._address)
        await eventually(lambda: connects(client), within_s=20)
