"""A plain nats-server with an MQTT listener, for engines that have no broker of their own."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from load_process import end
from measured_mesh import until

from towpath.atomic_write import write_private_file
from towpath.mesh.binaries import nats_server_binary
from towpath.mesh.nats_config import MQTT_ACK_WAIT

HOST = "127.0.0.1"
UP_S = 20.0

MAX_ACK_PENDING = 65_535
"""Messages that a subscription may leave unacknowledged: the server's limit. A site allows 1,024, because its
subscribers share this number; here there is one."""


@dataclass(frozen=True)
class Broker:
    """Address and login of a broker."""

    host: str
    port: int
    user: str
    password: str


@asynccontextmanager
async def plain_broker() -> AsyncIterator[Broker]:
    """Run a nats-server with JetStream and MQTT, the same program as a site's, within the context."""
    with tempfile.TemporaryDirectory(prefix="towpath-bench-broker-") as directory:
        mqtt_port, nats_port = _free_ports(2)
        broker = Broker(HOST, mqtt_port, "bench", secrets.token_hex(8))
        configuration = Path(directory, "nats.json")
        write_private_file(configuration, _configuration(broker, nats_port, directory))
        process = await asyncio.create_subprocess_exec(
            nats_server_binary(),
            *("-c", str(configuration), "-l", str(Path(directory, "nats.log"))),
            start_new_session=True,
        )
        try:
            await until(lambda: _listens(mqtt_port), UP_S, "the plain broker's MQTT listener")
            yield broker
        finally:
            await end(process)


def _configuration(broker: Broker, nats_port: int, directory: str) -> str:
    mqtt = {
        "host": broker.host,
        "port": broker.port,
        "ack_wait": MQTT_ACK_WAIT,
        "max_ack_pending": MAX_ACK_PENDING,
    }
    return json.dumps(
        {
            "server_name": "plain",
            "host": broker.host,
            "port": nats_port,
            "jetstream": {"store_dir": directory},
            "mqtt": mqtt,
            "authorization": {"users": [{"user": broker.user, "password": broker.password}]},
        }
    )


def _free_ports(number: int) -> list[int]:
    servers = [socket.create_server((HOST, 0)) for _ in range(number)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True
