"""Find gateways at a broker, and ask them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from towpath.gateways.client import Answer, DeviceOffline, GatewayClient

CONNECT_WITHIN_S = 10.0

PRESENCE_WITHIN_S = 1.0
"""Time after which no more gateways are expected: a broker sends what it keeps at once."""


async def present(client: GatewayClient) -> dict[str, bool]:
    """Return the gateways that a broker knows, with true if they are online. Raises `TowpathError`."""
    found: dict[str, bool] = {}
    await client.connected(CONNECT_WITHIN_S)
    async with contextlib.aclosing(client.presence()) as changes:
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(PRESENCE_WITHIN_S):
                    device, online = await anext(changes)
                found[device] = online
    return found


async def answer_of(
    client: GatewayClient,
    device: str,
    wanted: tuple[str, str, str, Any],
    request_id: str | None,
    within: float,
) -> dict[str, Any]:
    """Ask a gateway. Return its answer and the time it took, with code 0 if there was none.

    `wanted`: application id, verb, resource and body of the request.
    """
    began = time.monotonic()
    # Identifiers are remembered device by device, so all may have the same.
    identifier = None if request_id is None else f"{request_id}.{device}"
    try:
        answer = await client.request(device, *wanted, request_id=identifier, timeout_s=within)
    except DeviceOffline as error:
        answer = Answer(0, {"errors": [{"message": error.detail.message}]})
    seconds = round(time.monotonic() - began, 3)
    return {"device": device, "code": answer.code, "seconds": seconds, "body": answer.body}
