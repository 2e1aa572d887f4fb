"""The client of those who command gateways: requests with answers, and who is there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Self

from towpath import tasks
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.gateway import Code, Notification, Presence, Reply, Request
from towpath.gateways import control
from towpath.gateways.control import Address
from towpath.gateways.refusal import Refusal
from towpath.mqtt.broker_address import BrokerAddress
from towpath.mqtt.connection import MqttConnection

log = logging.getLogger(__name__)

RETRY_FIRST_S, RETRY_MOST_S = 0.2, 5.0
_LOOK_EVERY_S = 1.0


@dataclass(frozen=True)
class Answer:
    """A gateway's answer."""

    code: int
    """See `Code`. 202 only if the work was still going on when the time was over."""
    body: Any = None

    @property
    def is_ok(self) -> bool:
        """True if what was asked for is done."""
        return self.code == Code.OK


class DeviceOffline(TowpathError):
    """A gateway does not answer. With `sent`, it may still carry the request out when it is back.

    The same request, with the same identifier, may be sent again in both cases.
    """

    def __init__(self, device: str, why: str, *, sent: bool) -> None:
        super().__init__(ErrorCode.UNREACHABLE, f"the gateway {why}", field="device", value=device)
        self.device = device
        self.sent = sent


@dataclass(eq=False)
class _Waiting:
    """A request whose answer is awaited."""

    device: str
    topic: str
    payload: bytes
    answer: asyncio.Future[Answer]
    accepted: bool = False
    progress: int = 0
    sent: bool = False


class GatewayClient:
    """Commands gateways of one account over one connection, which is made again when it is lost.

    Use it as a context. Any number of requests may be under way at a time.
    """

    def __init__(self, address: BrokerAddress, account: str, requester: str | None = None) -> None:
        self._address = address
        self._account = account
        self._requester = requester or f"client-{token_hex(6)}"
        self._waiting: dict[str, _Waiting] = {}
        self._online: dict[str, bool] = {}
        self._sessions: dict[str, str] = {}
        """Gateway → name of its present run."""
        self._watchers: set[asyncio.Queue[tuple[str, bool]]] = set()
        self._connection: MqttConnection | None = None
        self._ready = asyncio.Event()
        self._refusal: TowpathError | None = None
        """Why the broker refused the last login, until it takes one."""
        self._address_changed = asyncio.Event()
        self._delay_s = RETRY_FIRST_S
        """Pause before the next attempt to connect."""
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to connect. Requests wait for the connection."""
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        await tasks.end([self._task])

    @property
    def online(self) -> dict[str, bool]:
        """Gateways that the broker has told of, with true if they are online."""
        return dict(self._online)

    async def connected(self, timeout_s: float) -> None:
        """Wait until there is a connection. Raises `TowpathError`: no broker in time, or it refuses."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._ready.wait()
        except TimeoutError:
            raise TowpathError(
                ErrorCode.UNREACHABLE, "no broker answers", field="broker", value=str(self._address)
            ) from None
        if self._refusal is not None:
            raise self._refusal

    def log_in_at(self, address: BrokerAddress) -> None:
        """Make the next connection, and all after it, with this address and login."""
        self._address = address
        self._address_changed.set()
        if self._refusal is not None:
            self._note_failure(None)

    async def request(
        self,
        device: str,
        application: str,
        verb: str,
        resource: str,
        body: Any = None,
        *,
        request_id: str | None = None,
        timeout_s: float = 30.0,
    ) -> Answer:
        """Send a request and return its final answer, or 202 if the time is over while the work goes on.

        Repeat a request with the same `request_id` as often as needed: the gateway does nothing twice.
        Raises `DeviceOffline` if the gateway is known to be away (nothing is sent then) or gives no answer
        in time, and `TowpathError` if the address is wrong or the broker refuses this client.
        """
        if self._online.get(device) is False:
            raise DeviceOffline(device, "is offline", sent=False)
        identifier = request_id or token_hex(8)
        waiting = self._enter(Address(self._account, device, application, verb, resource), identifier, body)
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(waiting)
                return await asyncio.shield(waiting.answer)
        except TimeoutError:
            if waiting.accepted:
                return Answer(Code.ACCEPTED)
            why = f"did not answer within {timeout_s:g} s" if waiting.sent else "cannot be reached: no broker"
            raise DeviceOffline(device, why, sent=waiting.sent) from None
        finally:
            if self._waiting.get(identifier) is waiting:
                del self._waiting[identifier]

    async def presence(self) -> AsyncGenerator[tuple[str, bool], None]:
        """Yield each gateway with true if it is online: first those known now, then every change."""
        changes: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
        for known in self._online.items():
            changes.put_nowait(known)
        self._watchers.add(changes)
        try:
            while True:
                yield await changes.get()
        finally:
            self._watchers.discard(changes)

    def progress(self, request_id: str) -> int:
        """Return the percentage that a gateway has told of a request that is under way; else 0."""
        waiting = self._waiting.get(request_id)
        return 0 if waiting is None else waiting.progress

    def _enter(self, address: Address, identifier: str, body: Any) -> _Waiting:
        try:
            topic, payload = address.topic, control.encode(Request(identifier, self._requester, body))
            control.decode_request(address, payload)  # Checks the identifiers, and XML.
        except Refusal as refusal:
            first = refusal.problems[0]
            raise TowpathError(
                ErrorCode.INVALID, first.message, field=first.field, value=first.value, allowed=first.allowed
            ) from refusal
        if identifier in self._waiting:
            raise TowpathError(
                ErrorCode.BUSY, "this request is under way", field="request_id", value=identifier
            )
        waiting = _Waiting(address.device, topic, payload, asyncio.get_running_loop().create_future())
        self._waiting[identifier] = waiting
        return waiting

    async def _send(self, waiting: _Waiting) -> None:
        await self._ready.wait()  # The topics of answers are subscribed to.
        if self._refusal is not None:
            raise self._refusal
        if self._connection is not None and not waiting.sent:
            self._publish(self._connection, waiting)

    def _publish(self, connection: MqttConnection, waiting: _Waiting) -> None:
        connection.publish(waiting.topic, waiting.payload)
        waiting.sent = True
        connection.wake()

    async def _run(self) -> None:
        while True:
            self._address_changed.clear()
            try:
                async with MqttConnection(self._address, self._requester, session=False) as connection:
                    await self._serve(connection)
            except OSError as error:
                log.warning("no connection to gateways: %s", error)
                self._note_failure(None)
            except TowpathError as error:  # It may pass: keys become known to a broker one after the other.
                log.warning("no connection to gateways: %s", error)
                self._note_failure(error)
            finally:
                self._connection = None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._address_changed.wait(), self._delay_s)
            self._delay_s = min(2 * self._delay_s, RETRY_MOST_S)

    def _note_failure(self, refusal: TowpathError | None) -> None:
        """Let requests wait for a connection, or fail as long as the broker refuses this client."""
        self._refusal = refusal
        if refusal is None:
            self._ready.clear()
        else:
            self._ready.set()

    async def _serve(self, connection: MqttConnection) -> None:
        filters = [
            control.reply_topic(self._account, self._requester, "+", "+"),
            control.notify_topic(self._account, self._requester, "+", "+", "#"),
            control.presence_topic(self._account, "+"),
        ]
        subscribed = connection.subscribe(filters)
        while True:
            for message in connection.take_arrived():
                if message.qos:
                    connection.acknowledge(message.mid)
                self._take(message.topic, bytes(message.payload))
            if subscribed.done() and self._connection is None:
                connection.check_subscribed(filters, subscribed.result(), field="user")
                self._begin(connection)
            connection.flush()
            connection.check()
            await connection.wait_for_news(_LOOK_EVERY_S)

    def _begin(self, connection: MqttConnection) -> None:
        """Send what waits, also what a lost connection may have swallowed: requests may be repeated."""
        self._connection, self._refusal = connection, None
        self._delay_s = RETRY_FIRST_S
        for waiting in self._waiting.values():
            self._publish(connection, waiting)
        self._ready.set()

    def _take(self, topic: str, payload: bytes) -> None:
        with contextlib.suppress(Refusal):  # Anyone may publish nonsense.
            if control.is_presence(topic):
                presence = control.decode(payload, Presence)
                self._note(presence)
            elif control.is_notification(topic):
                news = control.decode(payload, Notification)
                if (waiting := self._waiting.get(news.request_id)) is not None:
                    waiting.progress = news.progress
            elif control.is_reply(topic):
                self._answered(control.decode(payload, Reply))

    def _answered(self, reply: Reply) -> None:
        waiting = self._waiting.get(reply.request_id)
        if waiting is None or waiting.answer.done():
            return
        if reply.response_code == Code.ACCEPTED:
            waiting.accepted = True
        else:
            waiting.answer.set_result(Answer(reply.response_code, reply.body))

    def _note(self, presence: Presence) -> None:
        device, online = presence.device, presence.online
        if online and self._sessions.get(device) != presence.session:
            self._sessions[device] = presence.session
            self._send_again(device)
        if self._online.get(device) is online:
            return
        self._online[device] = online
        for changes in self._watchers:
            changes.put_nowait((device, online))

    def _send_again(self, device: str) -> None:
        """Send what a gateway was asked before it was there: its broker may not have kept it."""
        for waiting in self._waiting.values():
            if waiting.device == device and waiting.sent and self._connection is not None:
                self._publish(self._connection, waiting)
