"""Connections to NATS servers: those that come back by themselves, and those that end when they are cut."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import nats.errors
from nats.aio.client import Client
from nats.nuid import NUID
from nats.protocol.parser import AUTHORIZATION_VIOLATION

from towpath.bus.quick_client import QuickClient
from towpath.contracts.data_plane import inbox_prefix
from towpath.contracts.errors import TowpathError

log = logging.getLogger(__name__)

ClientT = TypeVar("ClientT", bound=Client)

RETRY_PAUSE_S = 0.3
"""Between attempts."""

CONNECT_S = 3.0
"""For one attempt."""

PENDING_BYTES = 64 * 1024**2
"""Bytes that may wait to be sent."""

REPLICAS = 3
"""Copies of a stream in a cluster: one of its servers may be down."""

Password = str | Callable[[], str]
"""A password, or what returns the present one each time that a connection logs in."""


def remembered(known: str, read: Callable[[], str]) -> Callable[[], str]:
    """Return what reads a password at each login, and returns the last `known` one while it is unreadable."""

    def password() -> str:
        nonlocal known
        # The machine may be leaving the mesh, and an exception would end a client that reconnects.
        with contextlib.suppress(TowpathError, OSError, ValueError):
            known = read()
        return known

    return password


@dataclass(frozen=True)
class Login:
    """A server, or a cluster of servers, and the user of the connection there."""

    url: str
    """Address; of a cluster, those of all its servers, separated by commas."""
    user: str
    password: Password = field(repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """With what the server is checked; None: the connection is plain."""


async def connect_persistently(login: Login, name: str) -> Client:
    """A connection that comes back by itself. Tries until it is made: also after a refusal, since a server
    that restarts refuses for a moment."""
    while True:
        try:
            client = unguessable(_PersistentClient())
            await client.connect(**_options(login, name, PENDING_BYTES), **_RETURNING)
            return client
        except (OSError, nats.errors.Error, TimeoutError):
            await asyncio.sleep(RETRY_PAUSE_S)


class _PersistentClient(Client):
    """A client that logs in again when the server ends its login. nats-py's own closes for good."""

    async def _process_err(self, err_msg: str) -> None:
        if AUTHORIZATION_VIOLATION in err_msg.lower() and self.is_connected:
            await self._process_op_err(nats.errors.AuthorizationError())
        else:
            await super()._process_err(err_msg)


async def connect_once(
    login: Login,
    name: str,
    *,
    lost: Callable[[str], None] = lambda why: None,
    pending_bytes: int = PENDING_BYTES,
) -> Client:
    """A connection that does not come back when it is cut: then `lost` is told why.

    One that came back would first send what waited at the moment of the cut, past what was lost with it. Who
    must not let messages overtake one another makes a new connection, and sends again from the first that is
    not acknowledged. Raises `nats.errors.Error`, `OSError` or `TimeoutError`.
    """

    async def on_closed() -> None:
        lost("the server closed the connection")

    async def on_error(error: Exception) -> None:
        log.warning("%s: %s: %s", name, type(error).__name__, error)
        lost(str(error) or type(error).__name__)

    async with asyncio.timeout(2 * CONNECT_S):
        client = unguessable(QuickClient())
        await client.connect(
            **_options(login, name, pending_bytes),
            allow_reconnect=False,
            max_reconnect_attempts=0,
            closed_cb=on_closed,
            disconnected_cb=on_closed,
            error_cb=on_error,
        )
        return client


class _RandomTokens(NUID):
    """Tokens of as many characters as the client's own, which count up from one to the next."""

    def next(self) -> bytearray:
        return bytearray(secrets.token_urlsafe(16).encode())


def unguessable(client: ClientT) -> ClientT:
    """Let a client ask for answers at inboxes that no one can foresee.

    Every site may publish to inboxes, because it answers requests. One that was asked before could otherwise
    guess the inbox of the next request, to another site, and answer in its place.
    """
    client._nuid = _RandomTokens()
    return client


class FreshConnection:
    """A connection that `connect_once` makes when it is first needed, and again each time it has ended."""

    def __init__(self, login: Login, name: str, *, pending_bytes: int = PENDING_BYTES) -> None:
        self._login = login
        self._name = name
        self._pending_bytes = pending_bytes
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def get(self) -> Client:
        """Return the connection. Raises `nats.errors.Error`, `OSError` or `TimeoutError`."""
        async with self._connecting:
            if self._client is None or self._client.is_closed:
                self._client = await connect_once(self._login, self._name, pending_bytes=self._pending_bytes)
            return self._client

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._client is not None:
            await self._client.close()


def login_of(connection: Client) -> Login:
    """Return the server and user of a connection, for another connection beside it."""
    user, password = (connection.options.get(name) or "" for name in ("user", "password"))
    url = ",".join(server.geturl() for server in connection.servers)
    return Login(url, user, password, connection.options.get("tls"))


def replicas_at(connection: Client) -> int:
    """Return how many copies of a stream are kept at the server of a connection: one without a cluster."""
    told = connection._server_info
    # The server of a site has no cluster, and names itself as one.
    return 1 if told.get("cluster") in (None, told["server_name"]) else REPLICAS


def _options(login: Login, name: str, pending_bytes: int) -> dict[str, Any]:
    # Users may read replies to themselves only. Servers of tests know no users.
    user = {
        "user": login.user,
        "password": login.password,
        "inbox_prefix": inbox_prefix(login.user).encode(),
    }
    if login.tls:
        logging.getLogger("asyncio").addFilter(_is_no_end)
    # The server's greeting comes after the handshake: a plain one could say that none is needed.
    encrypted = {"tls": login.tls, "tls_handshake_first": True}
    return {
        "servers": login.url.split(","),
        "name": name,
        "connect_timeout": CONNECT_S,
        "pending_size": pending_bytes,
        **(user if login.user else {}),
        **(encrypted if login.tls else {}),
    }


def _is_no_end(record: logging.LogRecord) -> bool:
    """Drop asyncio's warning at the end of each encrypted connection: nats-py wraps streams that it opened
    plain."""
    return not record.getMessage().startswith("returning true from eof_received()")


async def flushed(connection: Client) -> None:
    """Return when the server has processed everything that was sent before, subscriptions included.

    The client's own `flush` writes its ping at once, ahead of commands that still wait to be written. So its
    answer says nothing about them. But it comes only after they are written, so that a second `flush` waits
    for them.
    """
    await connection.flush()
    await connection.flush()


async def _log_connection_error(error: Exception) -> None:
    log.warning("nats: %s: %s", type(error).__name__, error)


_RETURNING: dict[str, Any] = {
    "allow_reconnect": True,
    "max_reconnect_attempts": -1,
    "reconnect_time_wait": 0.2,
    "error_cb": _log_connection_error,
}
