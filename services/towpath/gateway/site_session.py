"""The gateway's connection to its site's broker: requests come in, answers and results go out."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from paho.mqtt.client import MQTTMessage

from towpath.contracts.gateway import Presence
from towpath.gateway.connecting import keep_connected
from towpath.gateway.delivery import DeliveryRoutes
from towpath.gateways.control import encode, presence_topic, requests_filter
from towpath.mqtt.broker_address import BrokerAddress
from towpath.mqtt.connection import LastWill, MqttConnection

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_FAREWELL_S = 2.0
MOST_ANSWERS = 1000
"""Answers that wait for a connection. Older ones go: their requests are repeated."""

Receive = Callable[[str, bytes], None]


class SiteSession:
    """Connects until cancelled. The broker keeps requests while the gateway is away."""

    def __init__(
        self,
        address: BrokerAddress,
        account: str,
        device: str,
        delivery: DeliveryRoutes,
        receive: Receive,
        presence: Callable[[], Presence],
    ) -> None:
        self._address = address
        self._account = account
        self._device = device
        self._delivery = delivery
        self._receive = receive
        self._presence = presence
        self._told: Presence | None = None
        self._answers: deque[tuple[str, bytes]] = deque(maxlen=MOST_ANSWERS)
        self._connection: MqttConnection | None = None

    @property
    def is_connected(self) -> bool:
        """True while there is a connection."""
        return self._connection is not None

    def publish(self, topic: str, payload: bytes) -> None:
        """Send an answer or notification, now or with the next connection."""
        self._answers.append((topic, payload))
        self.wake()

    def wake(self) -> None:
        """Let the connection look for something to send."""
        if self._connection is not None:
            self._connection.wake()

    async def run(self) -> None:
        """Connect again and again until cancelled."""
        await keep_connected(self._connect, self._attend)

    async def _attend(self, connection: MqttConnection) -> None:
        try:
            await self._serve(connection)
        finally:
            self._connection = None
            await self._say_farewell(connection)

    def _connect(self) -> MqttConnection:
        death = Presence(self._device, online=False, session=self._presence().session)
        will = LastWill(presence_topic(self._account, self._device), encode(death))
        name = f"gateway-{self._account}-{self._device}"
        return MqttConnection(self._address, name, session=True, last_will=will)

    async def _serve(self, connection: MqttConnection) -> None:
        filters = requests_filter(self._account, self._device)
        subscribed = connection.subscribe(filters)
        checked = False
        self._told = None
        self._delivery.connected()
        self._connection = connection
        log.info("connected to %s", self._address)
        arrived: deque[MQTTMessage] = deque()
        while True:
            arrived.extend(connection.take_arrived())
            self._take(arrived, connection)
            if subscribed.done() and not checked:
                connection.check_subscribed(filters, subscribed.result(), field="site.user")
                checked = True
            if checked:  # Who sees the birth may send requests at once.
                self._tell_presence(connection)
            while self._answers:
                connection.publish(*self._answers.popleft())
            self._delivery.send(connection)
            connection.flush()
            connection.check()
            await connection.wait_for_news(_LOOK_EVERY_S)

    def _take(self, arrived: deque[MQTTMessage], connection: MqttConnection) -> None:
        """Take requests. They wait while the disk is full: results go on, and make room."""
        while arrived:
            message = arrived[0]
            try:
                self._receive(message.topic, bytes(message.payload))  # On the disk when this returns.
            except OSError as error:
                log.error("%d requests wait, as they cannot be kept: %s", len(arrived), error)
                return
            if message.qos:
                connection.acknowledge(message.mid)
            arrived.popleft()

    def _tell_presence(self, connection: MqttConnection) -> None:
        presence = self._presence()
        if presence != self._told:
            self._told = presence
            topic = presence_topic(self._account, self._device)
            connection.publish(topic, encode(presence), retain=True)

    async def _say_farewell(self, connection: MqttConnection) -> None:
        """Publish the death: a broker publishes the last will of lost connections only."""
        death = Presence(self._device, online=False, session=self._presence().session)
        topic = presence_topic(self._account, self._device)
        told = connection.publish(topic, encode(death), retain=True)
        try:
            async with asyncio.timeout(_FAREWELL_S):
                while not told.done():
                    connection.flush()
                    await connection.wait_for_news(_FAREWELL_S)
        except TimeoutError:
            pass
