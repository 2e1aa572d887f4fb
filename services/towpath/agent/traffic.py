"""Measure the traffic of a site. Its server knows its own and that of each connection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nats.aio.client import Client

from towpath.mesh.names import SERVER_CONNECTIONS, SERVER_TOTALS

ANSWER_S = 2.0
MOST_CONNECTIONS = 4096

Bytes = tuple[int, int]
"""Bytes into the server, and out of it."""


class Traffic:
    """Asks the site's server repeatedly, and adds up what users received and sent.

    A connection that was opened and closed between two looks is not seen.
    """

    def __init__(self, connection: Client) -> None:
        self._connection = connection
        self._server: str | None = None
        self._seen: dict[int, Bytes] = {}
        """Connection → its bytes at the last look."""
        self._totals: dict[str, Bytes] = {}
        """User → sums since the first look."""

    async def look(self) -> dict[str, dict[str, float]]:
        """Return user → values by metric. The server itself is called `nats`.

        Raises `nats.errors.Error` or `TimeoutError` when it does not answer, and `KeyError` for an answer
        without figures.
        """
        server = await self._ask(SERVER_TOTALS, {})
        listed = await self._ask(SERVER_CONNECTIONS, {"auth": True, "limit": MOST_CONNECTIONS})
        if server["server_id"] != self._server:
            # It has restarted, so its connections are other ones, whatever their numbers.
            self._server, self._seen = server["server_id"], {}
        self._take_in(listed["connections"])
        # A client's sent bytes are the server's received ones.
        values = {user: _values(received=out, sent=into) for user, (into, out) in self._totals.items()}
        return {**values, "nats": _values(received=server["in_bytes"], sent=server["out_bytes"])}

    async def _ask(self, subject: str, options: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self._connection.request(subject, json.dumps(options).encode(), timeout=ANSWER_S)
        return json.loads(answer.data)["data"]

    def _take_in(self, connections: list[dict[str, Any]]) -> None:
        seen: dict[int, Bytes] = {}
        for each in connections:
            number, user = each["cid"], _shared(each.get("authorized_user", ""))
            now = seen[number] = (each["in_bytes"], each["out_bytes"])
            before = self._seen.get(number, (0, 0))
            sums = self._totals.get(user, (0, 0))
            self._totals[user] = (sums[0] + now[0] - before[0], sums[1] + now[1] - before[1])
        self._seen = seen


def _shared(user: str) -> str:
    """Return the user that all devices may share for the user of a single one: there may be thousands."""
    site, device, _ = user.partition(".device.")
    return f"{site}.device" if device else user


def _values(*, received: int, sent: int) -> dict[str, float]:
    return {"process.network.received": float(received), "process.network.sent": float(sent)}
