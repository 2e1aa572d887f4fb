"""The input of an application: an MQTT session of its own, and the events that are not done yet.

An event is acknowledged to the broker when the application's process has done it, and the state behind it is
on the disk. So the broker sends again what a killed gateway had not done. An event is done twice only if the
gateway is killed between writing the state and the acknowledgement.

Each application has a session of its own: one that does not keep up slows none of the others down.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from dataclasses import dataclass
from typing import Any

import msgspec
from paho.mqtt.client import MQTTMessage

from towpath.mqtt.broker_address import BrokerAddress
from towpath.mqtt.connection import MqttConnection, is_refusal

log = logging.getLogger(__name__)

RETRY_FIRST_S, RETRY_MOST_S = 0.5, 30.0
MOST_PENDING = 1000
"""Events in memory. Beyond them the connection is not read, and the broker keeps the rest."""

_LOOK_EVERY_S = 5.0


@dataclass
class Pending:
    """An event that is not acknowledged yet."""

    number: int
    event: dict[str, Any]
    packet: int
    """Packet number at the broker; 0 for QoS 0, which needs no acknowledgement."""
    payload: bytes


class ApplicationInput:
    """Reads topics in a session that the broker keeps."""

    def __init__(self, address: BrokerAddress, client_id: str, topics: list[str]) -> None:
        self._address = address
        self._client_id = client_id
        self._topics = topics
        self._connection: MqttConnection | None = None
        self._pending: deque[Pending] = deque()
        self._unsent: deque[Pending] = deque()
        """Those that the process has not got yet."""
        self._unconfirmed: dict[int, bytes] = {}
        """Packets that are done, whose acknowledgement a lost connection may have taken with it."""
        self._last = 0
        self._news = asyncio.Event()
        self.received = self.malformed = 0

    async def run(self) -> None:
        """Read until cancelled. A lost connection is made again. Without topics, there is nothing to do."""
        if not self._topics:
            await asyncio.Event().wait()
        delay = RETRY_FIRST_S
        while True:
            try:
                async with MqttConnection(self._address, self._client_id, session=True) as connection:
                    delay = RETRY_FIRST_S
                    await self._read(connection)
            except Exception as error:
                if not isinstance(error, OSError) and not is_refusal(error):
                    raise
                log.warning("%s reads nothing: %s", self._client_id, error)
            finally:
                self._connection = None
            await asyncio.sleep(delay)
            delay = min(2 * delay, RETRY_MOST_S)

    async def _read(self, connection: MqttConnection) -> None:
        subscribed = connection.subscribe(self._topics)
        self._connection = connection
        if not connection.session_present:  # Nothing comes again, so what is pending stays.
            self._unconfirmed.clear()
            for each in self._pending:
                each.packet = 0
        checked = False
        while True:
            if len(self._pending) < MOST_PENDING:
                for message in connection.take_arrived():
                    self._take(connection, message)
            if subscribed.done() and not checked:
                connection.check_subscribed(self._topics, subscribed.result(), field="input.topics")
                checked = True
            connection.flush()
            connection.check()
            await connection.wait_for_news(_LOOK_EVERY_S if len(self._pending) < MOST_PENDING else 0.05)

    def _take(self, connection: MqttConnection, message: MQTTMessage) -> None:
        if message.dup and self._came_before(connection, message):
            return
        self.received += 1
        event = _event(message)
        if event is None:
            self.malformed += 1
            if message.qos:
                connection.acknowledge(message.mid)
            return
        self._last += 1
        packet = message.mid if message.qos else 0
        pending = Pending(self._last, event, packet, bytes(message.payload))
        self._pending.append(pending)
        self._unsent.append(pending)
        self._news.set()

    def _came_before(self, connection: MqttConnection, message: MQTTMessage) -> bool:
        """True for a message of a former connection that is done already, or still being worked on."""
        if self._unconfirmed.get(message.mid) == message.payload:
            connection.acknowledge(message.mid)
            return True
        return any(each.packet == message.mid and each.payload == message.payload for each in self._pending)

    async def next(self) -> Pending:
        """Return the next event that was not sent to the process."""
        while not self._unsent:
            self._news.clear()
            await self._news.wait()
        return self._unsent.popleft()

    def done(self, number: int) -> None:
        """Acknowledge the events up to this number."""
        while self._pending and self._pending[0].number <= number:
            each = self._pending.popleft()
            if not each.packet:
                continue
            self._unconfirmed.pop(each.packet, None)
            self._unconfirmed[each.packet] = each.payload
            if len(self._unconfirmed) > MOST_PENDING:
                del self._unconfirmed[next(iter(self._unconfirmed))]
            if self._connection is not None:
                self._connection.acknowledge(each.packet)
        if self._connection is not None:
            self._connection.wake()

    def send_again(self) -> None:
        """Hand all events that are not done to the next process."""
        self._unsent = deque(self._pending)
        self._news.set()

    async def forget(self) -> None:
        """Let the broker forget the session, if it can be reached now. Its events are not wanted any more."""
        if not self._topics:
            return
        with contextlib.suppress(OSError):
            async with MqttConnection(self._address, self._client_id, session=False):
                pass


def _event(message: MQTTMessage) -> dict[str, Any] | None:
    """Return a message as an event with its topic; a bare value becomes the field `value`."""
    try:
        content = msgspec.json.decode(message.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    fields = content if isinstance(content, dict) else {"value": content}
    return {**fields, "topic": message.topic}
