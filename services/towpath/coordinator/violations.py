"""Tell of what the hub's server refused: logins, and sites' servers that went beyond their rights.

A site's own server never sends what the hub would refuse. So a violation means that someone else speaks with
the site's credential. The hub ends such a connection at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nats.aio.msg import Msg

from towpath.bus import Bus
from towpath.bus.authenticity import Refusals
from towpath.contracts.message import HUB_SCOPE
from towpath.mesh.names import CONNECTION_ENDED, LOGIN_REFUSED

log = logging.getLogger(__name__)

VIOLATION = "Protocol Violation"
"""The server's reason for ending a leaf's connection."""

TAIL_BYTES = 64 * 1024
"""Of the hub's log, where the subject is: the notice says who, and the log says what."""


async def watch(bus: Bus, log_of: Callable[[str], Path]) -> None:
    """Publish a `SecurityRefused` for each notice of a server of the hub, as long as the bus lives. `log_of`
    returns the log of a server."""
    refusals = Refusals(HUB_SCOPE, bus.publish)

    async def on_message(message: Msg) -> None:
        await _tell(refusals, message, log_of)

    await bus.connection.subscribe(CONNECTION_ENDED, cb=on_message)
    await bus.connection.subscribe(LOGIN_REFUSED, cb=on_message)


async def _tell(refusals: Refusals, message: Msg, log_of: Callable[[str], Path]) -> None:
    notice: dict[str, Any] = json.loads(message.data)
    client: dict[str, Any] = notice.get("client") or {}
    reason, user = str(notice.get("reason") or ""), str(client.get("user") or "")
    who = user.removesuffix(".leaf") or str(client.get("host") or "")
    if message.subject != CONNECTION_ENDED:
        await refusals.tell("login", "", who=who, why=reason or "wrong user or password")
    elif reason == VIOLATION:
        hub_log = log_of(notice["server"]["name"])
        kind, subject = await asyncio.to_thread(_refused, hub_log, client.get("id"))
        await refusals.tell(kind, subject, who=who, why=reason)


def _refused(hub_log: Path, connection: Any) -> tuple[str, str]:
    """Return what a connection tried, and under which subject, as the log has it; empty where it has not.

    In containers, the log is the container's.
    """
    try:
        with hub_log.open("rb") as file:
            file.seek(max(0, hub_log.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return "publish", ""
    found = re.findall(rf'lid:{connection} - (\w+) Violation on "([^"]*)"', text)
    return (found[-1][0].lower(), found[-1][1]) if found else ("publish", "")
