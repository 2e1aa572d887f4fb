"""Tell of what a site's server refused its devices: logins, topics, and, not refused, sessions taken over.

nats-server notes these in its log alone. The log names connections, and the server knows whose they are.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from typing import NamedTuple

from nats.aio.client import Client
from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.bus.authenticity import Refusals
from towpath.mesh.names import SERVER_CONNECTIONS

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0

MOST_BYTES = 64 * 1024
"""Of the log, in one look: a flood of refusals must not become work of ours. The newest count."""

ANSWER_S = 2.0

EVERY_STATE = 2
"""Connections that are open, and those that have ended."""

_NOTE = re.compile(
    r' - mid:(?P<connection>\d+) - "(?P<client>(?:[^"\\]|\\.)*)" - (?:'
    r'(?P<kind>Publish|Subscription) Violation - Subject "(?P<subject>[^"]*)"'
    r'|authentication error - User "(?P<user>[^"]*)"'
    r"|Replacing old client .* - mid:(?P<old>\d+) - )"
)


class LogTail:
    """Returns what a log got since the last look. A log that is replaced is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0

    def notes(self) -> list[re.Match[str]]:
        """Return the notes in the new lines that are complete."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                begin = max(self._position if self._position <= size else 0, size - MOST_BYTES)
                file.seek(begin)
                text = file.read(size - begin)
        except OSError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._position = begin + len(whole)
        lines = whole.decode(errors="replace").splitlines()
        return [found for line in lines if (found := _NOTE.search(line))]


async def watch(bus: Bus, site: str, log_file: Path) -> None:
    """Tell of each note in the log of the site's server, until cancelled. See `SecurityRefused`."""
    refusals, tail = Refusals(site, bus.publish), LogTail(log_file)
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        users: dict[str, str] = {}
        for note in await asyncio.to_thread(tail.notes):
            for connection in filter(None, note.group("connection", "old")):
                if connection not in users and note["user"] is None:
                    users[connection] = await _user(bus.connection, connection)
            found = refused(note, users)
            if found is not None:
                await refusals.tell(found.kind, found.topic, who=found.who, why=found.why)


class Refused(NamedTuple):
    """An attempt that was refused, or could not be."""

    kind: str
    topic: str
    """As a subject; empty where it is about none."""
    who: str
    why: str


def refused(note: re.Match[str], users: dict[str, str]) -> Refused | None:
    """Return what a note tells, given the users of connections. None if all is well."""
    who, client = users.get(note["connection"], ""), note["client"]
    if note["user"] is not None:
        return Refused("login", "", note["user"], f"wrong user or password, of client {client}")
    if note["old"] is None:
        return Refused(note["kind"].lower(), note["subject"], who, "not among its topics")
    owner = users.get(note["old"], "")
    if owner == who:
        return None
    return Refused("client-id", "", who, f"took over the session {client} of {owner}")


async def _user(connection: Client, number: str) -> str:
    """Return the user of a connection; empty if the server does not tell."""
    asked = {"auth": True, "cid": int(number), "state": EVERY_STATE}
    try:
        answer = await connection.request(SERVER_CONNECTIONS, json.dumps(asked).encode(), timeout=ANSWER_S)
    except (NatsError, OSError, TimeoutError) as error:
        log.warning("the server does not tell whose connection %s is: %s", number, error)
        return ""
    found = json.loads(answer.data)["data"]["connections"]
    return found[0].get("authorized_user", "") if found else ""
