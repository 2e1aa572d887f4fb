"""One MQTT connection that publishes fast, with the acknowledgements in the caller's hands."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any, Self

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from towpath.contracts.errors import ErrorCode, TowpathError

_CONNECT_WITHIN_S = 5.0
_KEEPALIVE_S = 15
_MAINTAIN_EVERY_S = 1.0
_REFUSALS = frozenset({"Bad user name or password", "Not authorized"})
"""Refusals that do not go away by trying again."""


class ReplayConnection:
    """An MQTT connection driven by the event loop; QoS 1, one topic, no subscriptions.

    paho-mqtt does the protocol. aiomqtt, which sits on it, awaits every acknowledgement with a task and an
    event and stays at 13,000 events/s; paho's own thread reaches 18,000, and this, which writes and reads
    many packets at each turn, 38,000 (two cores, nats-server beside it, 220-byte events).

    Raises `OSError` where the connection fails, `TowpathError` where the broker refuses the user for good.
    """

    def __init__(
        self, host: str, port: int, username: str | None, password: str | None, topic: str, client_id: str
    ) -> None:
        self._address = (host, port)
        self._username = username
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._numbers: dict[int, int] = {}
        self._acknowledged: list[int] = []
        self._accepted = False
        self._refusal: str | None = None
        self._lost: str | None = None
        self._writing = False
        self._descriptor = -1
        self._maintained_at = time.monotonic()
        self._client = self._new_client(client_id, username, password)

    def _new_client(self, client_id: str, username: str | None, password: str | None) -> Client:
        client = Client(CallbackAPIVersion.VERSION2, client_id=client_id, reconnect_on_failure=False)
        client.connect_timeout = _CONNECT_WITHIN_S
        client.max_inflight_messages_set(0)  # the window is the caller's, so that order outlives a connection
        if username is not None:
            client.username_pw_set(username, password)
        client.on_connect = self._on_connect
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect
        client.on_socket_close = lambda client, userdata, sock: self._forget_socket()
        # Being told of each packet keeps paho from writing packets one by one; `flush` writes them all.
        client.on_socket_register_write = lambda client, userdata, sock: None
        return client

    async def __aenter__(self) -> Self:
        """Connect and wait until the broker accepted."""
        host, port = self._address
        async with asyncio.timeout(_CONNECT_WITHIN_S * 2):
            await asyncio.to_thread(self._client.connect, host, port, _KEEPALIVE_S)
            sock = self._client.socket()
            if sock is None:
                raise ConnectionError("the broker closed the connection at once")
            self._descriptor = sock.fileno()
            self._loop.add_reader(self._descriptor, self._on_readable)
            try:
                while not self._accepted:
                    self.flush()
                    await self.wait_for_news(_MAINTAIN_EVERY_S)
                    self.check()
            except BaseException:
                self._close()
                raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Take leave of the broker if it is still there; wait for nothing."""
        self._close()

    @property
    def outstanding(self) -> int:
        """Events sent over this connection and not yet acknowledged."""
        return len(self._numbers)

    def publish(self, number: int, payload: bytes) -> None:
        """Hand over one event under the caller's number. It leaves with the next `flush`."""
        info = self._client.publish(self._topic, payload, qos=1)
        if info.rc is MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._numbers[info.mid] = number
        else:
            self._lose(str(info.rc))

    def flush(self) -> None:
        """Write what is handed over; what the socket does not take now goes when it can."""
        if self._descriptor < 0:
            return
        self._client.loop_write()
        more = self._client.want_write() and self._descriptor >= 0
        if more and not self._writing:
            self._loop.add_writer(self._descriptor, self.flush)
        elif self._writing and not more and self._descriptor >= 0:
            self._loop.remove_writer(self._descriptor)
        self._writing = more

    async def wait_for_news(self, within_s: float) -> None:
        """Return when something was acknowledged or the connection failed, or after `within_s`."""
        if within_s <= 0:
            await asyncio.sleep(0)
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), within_s)
        self._news.clear()
        if time.monotonic() - self._maintained_at >= _MAINTAIN_EVERY_S:
            self._maintained_at = time.monotonic()
            self._client.loop_misc()  # pings, and notices when they stay unanswered
            self.flush()

    def take_acknowledged(self) -> list[int]:
        """The numbers of the events that were acknowledged since the last call."""
        taken, self._acknowledged = self._acknowledged, []
        return taken

    def check(self) -> None:
        """Raise if the broker refused, or the connection is lost."""
        if self._refusal in _REFUSALS:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"the broker refused: {self._refusal}",
                field="username",
                value=self._username,
            )
        if self._lost is not None:
            raise ConnectionError(self._lost)

    def _close(self) -> None:
        self._client.disconnect()
        self._client.loop_write()  # sends DISCONNECT; paho then closes the socket
        sock = self._client.socket()
        self._forget_socket()
        if sock is not None:
            sock.close()

    def _on_readable(self) -> None:
        if self._client.loop_read() is not MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._lose("connection lost")

    def _on_connect(
        self,
        client: Client,
        userdata: Any,
        flags: ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            self._refusal = reason.getName()
            self._lose(self._refusal)
        self._accepted = not reason.is_failure
        self._news.set()

    def _on_publish(
        self, client: Client, userdata: Any, mid: int, reason: ReasonCode, properties: Properties
    ) -> None:
        number = self._numbers.pop(mid, None)
        if number is not None:
            self._acknowledged.append(number)
            self._news.set()

    def _on_disconnect(
        self,
        client: Client,
        userdata: Any,
        flags: DisconnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        self._lose(str(reason))

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self._news.set()

    def _forget_socket(self) -> None:
        """Before a descriptor is closed the loop must let go of it: its number may come back."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            self._loop.remove_writer(self._descriptor)
            self._descriptor = -1
