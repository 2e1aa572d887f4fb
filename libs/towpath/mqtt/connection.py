"""One MQTT connection on the event loop. The caller sends the acknowledgements."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from towpath.mqtt.broker_address import CONNECT_WITHIN_S, WINDOW, BrokerAddress

if TYPE_CHECKING:
    from towpath.contracts.errors import TowpathError

_MAINTAIN_EVERY_S = 1.0
_READS_AT_ONCE = 250
"""Packets read between two turns of the event loop: about 5 ms of work."""
_MOST_ARRIVED = 5000
"""Messages that may wait to be taken. Beyond that the socket is not read, which slows the sender down."""
_REFUSED = 0x80
"""Lowest reason code that means a refusal."""
_EVENT_ID = "event-id"
_LOGIN_REFUSALS = frozenset({"Bad user name or password", "Not authorized"})


def event_id(message: MQTTMessage) -> str:
    """Return what the device calls its event: the user property `event-id` of MQTT 5; empty without one."""
    return dict(getattr(message.properties, "UserProperty", ())).get(_EVENT_ID, "")


@dataclass(frozen=True)
class LastWill:
    """A message that the broker publishes, and keeps, when the connection ends without a farewell."""

    topic: str
    payload: bytes


class MqttConnection:
    """A connection to a broker, with QoS 1 in both directions. paho-mqtt does the protocol.

    aiomqtt, which is built on paho-mqtt, takes one packet per turn of the loop, and one task per message or
    acknowledgement. This class takes many packets per turn, for half of the processor time (57 instead of
    123 us to receive a result, parse it and acknowledge it).

    `session`: the broker keeps subscriptions and unacknowledged messages while this client is away. Raises
    `OSError` when the connection fails, and `TowpathError` when the broker refuses user or topic.
    """

    def __init__(
        self, address: BrokerAddress, client_id: str, *, session: bool, last_will: LastWill | None = None
    ) -> None:
        self._address = address
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._arrived: list[MQTTMessage] = []
        self._awaited: dict[int, asyncio.Future[list[ReasonCode]]] = {}
        self._connected = False
        self._refusal: str | None = None
        self._lost: str | None = None
        self._writing = self._reading = False
        self._descriptor = -1
        self._maintained_at = time.monotonic()
        self.session_present = False
        """True if the broker knew this client's session."""
        self.window = WINDOW
        """Messages that the broker takes before it has acknowledged one."""
        self._client = self._with_callbacks(address.client(client_id, session=session))
        if last_will is not None:
            self._client.will_set(last_will.topic, last_will.payload, qos=1, retain=True)

    def _with_callbacks(self, client: Client) -> Client:
        client.on_connect = self._on_connect
        client.on_message = self._on_message
        client.on_publish = lambda client, userdata, mid, code, properties: self._answered(mid, [code])
        client.on_subscribe = lambda client, userdata, mid, codes, properties: self._answered(mid, codes)
        client.on_unsubscribe = self._on_unsubscribe
        client.on_disconnect = self._on_disconnect
        client.on_socket_close = lambda client, userdata, sock: self._forget_socket()
        # A callback per packet keeps paho from writing packets one by one. `flush` writes them all.
        client.on_socket_register_write = lambda client, userdata, sock: None
        return client

    async def __aenter__(self) -> Self:
        """Connect and wait until the broker has accepted."""
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S * 3):
                await asyncio.to_thread(self._address.connect, self._client, session=self._session)
                sock = self._client.socket()
                if sock is None:
                    raise ConnectionError("the broker closed the connection at once")
                self._descriptor = sock.fileno()
                self._listen()
                while not self._connected:
                    self.flush()
                    await self.wait_for_news(_MAINTAIN_EVERY_S)
                    self.check()
        except OSError as error:  # Also timeouts and bad certificates.
            self._close()
            raise ConnectionError(f"the broker {self._address}: {str(error) or 'no answer'}") from error
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect if the broker is still there. Wait for nothing."""
        self._close()

    def subscribe(self, filters: Sequence[str]) -> asyncio.Future[list[ReasonCode]]:
        """Subscribe with QoS 1. The future gets the broker's answer.

        It may come after a long backlog, so take messages meanwhile.
        """
        return self._expect(self._client.subscribe([(each, 1) for each in filters])[1])

    def check_subscribed(
        self, filters: Sequence[str], codes: Sequence[ReasonCode], *, field: str = "broker.subscribe"
    ) -> None:
        """Raise `TowpathError` for a filter that the broker refused. `field` is where it was asked for."""
        for each, code in zip(filters, codes, strict=True):
            if code.value >= _REFUSED:
                raise _not_allowed(
                    f"the broker {self._address} refuses the subscription: {code}", field, each
                )

    def unsubscribe(self, filters: Sequence[str]) -> asyncio.Future[list[ReasonCode]]:
        """Cancel subscriptions."""
        return self._expect(self._client.unsubscribe([*filters])[1])

    def publish(
        self, topic: str, payload: bytes, *, retain: bool = False
    ) -> asyncio.Future[list[ReasonCode]]:
        """Send with QoS 1. The future gets the broker's answer. Keep to `window`.

        With `retain`, the broker keeps the message for those who subscribe later.
        """
        return self._expect(self._client.publish(topic, payload, qos=1, retain=retain).mid)

    def acknowledge(self, packet: int) -> None:
        """Acknowledge a message to the broker. It leaves with the next `flush`."""
        self._client.ack(packet, 1)

    def take_arrived(self) -> list[MQTTMessage]:
        """Return the messages that came since the last call, in order."""
        taken, self._arrived = self._arrived, []
        if self._descriptor >= 0 and not self._reading:
            self._listen()
        return taken

    def flush(self) -> None:
        """Write all packets. Those that the socket does not take now follow when it can."""
        if self._descriptor < 0:
            return
        self._client.loop_write()
        more = self._client.want_write() and self._descriptor >= 0
        if more and not self._writing:
            self._loop.add_writer(self._descriptor, self.flush)
        elif self._writing and not more and self._descriptor >= 0:
            self._loop.remove_writer(self._descriptor)
        self._writing = more

    def wake(self) -> None:
        """Let `wait_for_news` return."""
        self._news.set()

    async def wait_for_news(self, within_s: float) -> None:
        """Return when something came, was handed over or failed, or after `within_s` seconds.

        Call it at least every few seconds: it keeps the connection alive.
        """
        if within_s <= 0:
            await asyncio.sleep(0)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):  # `wait_for` may swallow a cancellation.
                    await self._news.wait()
        self._news.clear()
        if time.monotonic() - self._maintained_at >= _MAINTAIN_EVERY_S:
            self._maintained_at = time.monotonic()
            self._client.loop_misc()  # Sends pings, and notices when they stay unanswered.
            self.flush()

    def check(self) -> None:
        """Raise if the connection cannot be used.

        `TowpathError`: the broker refused the user. `ConnectionError`: the connection is lost, or the broker
        refuses it for now.
        """
        if self._refusal in _LOGIN_REFUSALS:
            raise _not_allowed(
                f"the broker {self._address} refuses: {self._refusal}", "broker.user", self._address.user
            )
        if self._lost is not None:
            raise ConnectionError(f"the broker {self._address}: {self._lost}")

    def _expect(self, mid: int | None) -> asyncio.Future[list[ReasonCode]]:
        answer: asyncio.Future[list[ReasonCode]] = self._loop.create_future()
        self._news.set()
        if self._lost is not None or mid is None:
            answer.set_exception(ConnectionError(self._lost or "not connected"))
            answer.exception()  # Retrieved, so that asyncio does not warn if no one waits for it.
        else:
            self._awaited[mid] = answer
        return answer

    def _answered(self, mid: int, codes: list[ReasonCode]) -> None:
        answer = self._awaited.pop(mid, None)
        if answer is not None and not answer.done():
            answer.set_result(codes)
        self._news.set()

    def _on_message(self, client: Client, userdata: Any, message: MQTTMessage) -> None:
        # Messages have thirty dictionaries each. Kept, they double the work of a backlog by garbage
        # collection.
        if not event_id(message):
            message.properties = None
        self._arrived.append(message)

    def _on_unsubscribe(
        self,
        client: Client,
        userdata: Any,
        mid: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        self._answered(mid, reasons)

    def _close(self) -> None:
        self._lose("closed")
        self._client.disconnect()
        self._client.loop_write()  # Sends DISCONNECT; paho then closes the socket.
        sock = self._client.socket()
        self._forget_socket()
        if sock is not None:
            sock.close()

    def _listen(self) -> None:
        self._reading = True
        self._loop.add_reader(self._descriptor, self._on_readable)
        self._loop.call_soon(self._on_readable)  # TLS may hold bytes that the socket does not announce.

    def _on_readable(self) -> None:
        if self._descriptor < 0 or not self._reading:
            return
        for _ in range(_READS_AT_ONCE):
            before = len(self._arrived)
            if self._client.loop_read() is not MQTTErrorCode.MQTT_ERR_SUCCESS:
                return self._lose("connection lost")
            if len(self._arrived) == before:
                break
        if self._arrived:
            self._news.set()
        if len(self._arrived) >= _MOST_ARRIVED and self._descriptor >= 0:
            self._reading = False
            self._loop.remove_reader(self._descriptor)
        sock = self._client.socket()
        if isinstance(sock, ssl.SSLSocket) and sock.pending():
            self._loop.call_soon(self._on_readable)

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
            self._lose(f"refuses: {self._refusal}")
        else:
            self._connected = True
            self.session_present = flags.session_present
            self.window = min(WINDOW, getattr(properties, "ReceiveMaximum", WINDOW))
        self._news.set()

    def _on_disconnect(
        self,
        client: Client,
        userdata: Any,
        flags: DisconnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        self._lose(f"connection lost ({reason})")

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        awaited, self._awaited = self._awaited, {}
        for answer in awaited.values():
            if not answer.done():
                answer.set_exception(ConnectionError(self._lost))
                answer.exception()  # Retrieved, so that asyncio does not warn if no one waits.
        self._news.set()

    def _forget_socket(self) -> None:
        """Remove the socket from the loop before it is closed, because its number may be used again."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            self._loop.remove_writer(self._descriptor)
            self._descriptor = -1


def is_refusal(error: Exception) -> bool:
    """Return true if the error is that of a broker which refuses a user or topic: no bug, and it may end."""
    from towpath.contracts.errors import TowpathError

    return isinstance(error, TowpathError)


def _not_allowed(message: str, field: str, value: str | None) -> TowpathError:
    # Here, as a gateway has no memory for models of errors that it never meets.
    from towpath.contracts.errors import ErrorCode, TowpathError

    return TowpathError(ErrorCode.NOT_ALLOWED, message, field=field, value=value)
