"""An attacker who speaks the protocol of leaf nodes to the hub, with the credential of a site's server.

A site's own nats-server knows what the hub allows, and holds the rest back. Someone who has taken a site over
needs no such server: so only what the hub itself refuses is a wall.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from running.waiting import WITHIN_S
from towpath.mesh.state import MeshState


@dataclass
class RawLeaf:
    """A connection to the hub's port for leaf nodes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    heard: list[tuple[str, bytes]] = field(default_factory=list)
    """Subjects and bodies that the hub sent."""
    told: set[str] = field(default_factory=set)
    """Subjects that someone listens to elsewhere, as the hub says."""
    refusal: str | None = None
    """The hub's error, if it sent one."""
    _pongs: int = 0

    async def publish(self, subject: str, body: bytes = b"{}", reply: str = "") -> str | None:
        """Send a message. Return the hub's refusal, or None if it took the message."""
        self.writer.write(f"LMSG {subject} {reply + ' ' if reply else ''}{len(body)}\r\n".encode())
        self.writer.write(body + b"\r\n")
        await self.settled()
        return self.refusal

    async def subscribe(self, subject: str) -> None:
        """Ask the hub for messages. It says nothing where it refuses that."""
        self.writer.write(f"LS+ {subject}\r\n".encode())
        await self.settled()

    async def settled(self) -> None:
        """Return when the hub has taken all that was sent before, or has closed the connection."""
        pongs = self._pongs
        self.writer.write(b"PING\r\n")
        async with asyncio.timeout(WITHIN_S):
            while self._pongs == pongs and await self._next_line():
                pass

    async def listen(self, seconds: float) -> None:
        """Take what the hub sends for some time."""
        try:
            async with asyncio.timeout(seconds):
                while await self._next_line():
                    pass
        except TimeoutError:
            pass

    async def _next_line(self) -> bool:
        try:
            line = await self.reader.readline()
        except ConnectionError:
            return False
        verb, _, rest = line.decode().strip().partition(" ")
        if verb == "PONG":
            self._pongs += 1
        elif verb == "PING":
            self.writer.write(b"PONG\r\n")
        elif verb == "LS+":
            self.told.add(rest)
        elif verb == "-ERR":
            self.refusal = rest
        elif verb in ("LMSG", "HMSG"):
            subject, *_, size = rest.split()
            self.heard.append((subject, await self.reader.readexactly(int(size))))
            await self.reader.readline()
        return bool(line)


@asynccontextmanager
async def raw_leaf(
    state: MeshState, site: str, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawLeaf]:
    """Connect as the server of a site would. Where the hub encrypts, it asks for a certificate in `tls`."""
    login = state.site(site).leaf
    reader, writer = await asyncio.open_connection(host, state.leaf_port, ssl=tls)
    await reader.readline()  # INFO
    greeting = {"user": login.user, "pass": login.password, "name": f"not-{site}", "headers": True}
    writer.write(f"CONNECT {json.dumps(greeting)}\r\n".encode())
    leaf = RawLeaf(reader, writer)
    try:
        await leaf.settled()
        yield leaf
    finally:
        writer.close()
