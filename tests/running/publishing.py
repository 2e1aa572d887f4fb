"""Publishers of tests over connections that the test has."""

from __future__ import annotations

from nats.aio.client import Client

from towpath.streams.publisher import Connect


def always(connection: Client) -> Connect:
    """Return what a `Publisher` connects with: this connection, each time."""

    async def connect() -> Client:
        return connection

    return connect
