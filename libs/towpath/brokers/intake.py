"""From a broker into the site's IN stream, with QoS 1 and a session that outlives connections.

A message is acknowledged to the broker when the stream has stored it, in the order of receipt. When
anything fails (broker, stream, this process), both connections are opened again, and the broker delivers
unacknowledged messages again. Those that are already stored are recognised by the end of the stream and
left out. See `overlap` for the few that remain in doubt. Messages of QoS 0 come at most once, as sent.

Retained messages are not stored, because they come again with each subscription and may be of any age. A
message that a device publishes during the subscription arrives as an event, retained or not.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paho.mqtt.client import MQTTMessage

from towpath.brokers.overlap import HISTORY, Overlap, Seen
from towpath.brokers.retrying import Endeavour, is_cancelled
from towpath.brokers.session_file import SessionFile
from towpath.brokers.site_log import Identity, SiteLog, connected
from towpath.brokers.topics import RefusedTopics, storable_subject
from towpath.mesh.nats_config import MAX_PAYLOAD
from towpath.mesh.state import SiteAccess
from towpath.mqtt.broker_address import BrokerAddress
from towpath.mqtt.connection import MqttConnection, event_id

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Between checks while nothing happens."""

OVERLAP_S = 2.0
"""A broker delivers again at once. When this long has passed since the last of it, no more will come."""

MOST_ON_THE_WAY = 5000
"""Events that the stream has yet to acknowledge. With more, the broker is not read."""

UNSTORABLE = "IN holds topics under site/ without dots, spaces, wildcards and empty levels"

_HEADROOM = 64 * 1024


@dataclass(slots=True, eq=False)
class _Delivery:
    """A message on its way into the stream."""

    message: MQTTMessage
    subject: str
    seen: Seen
    done: bool = False
    """True if it may be acknowledged."""

    @property
    def again(self) -> bool:
        return self.message.dup


class Intake:
    """Carries what devices send from the broker into IN, until cancelled."""

    def __init__(
        self,
        access: SiteAccess,
        address: Callable[[], BrokerAddress],
        client_id: str,
        filters: Sequence[str],
        file: SessionFile,
    ) -> None:
        self._access = access
        self._address = address
        self._client_id = client_id
        self._filters = [*filters]
        self._file = file
        self.refused = RefusedTopics()
        """Counts topics that IN cannot store."""
        self._endeavour = Endeavour("events from the broker", self._attempt)

    @property
    def trouble(self) -> str | None:
        """Return the reason why no events come now. None if they do."""
        return self._endeavour.trouble

    async def run(self) -> None:
        """Carry events until cancelled."""
        await self._endeavour.run()

    async def _attempt(self, endeavour: Endeavour) -> None:
        site = self._access.spec.name
        lost: list[str] = []
        address = await asyncio.to_thread(
            self._address
        )  # Read each time, because the password may have been corrected.
        async with (
            connected(self._access, lost.append) as server,
            MqttConnection(address, self._client_id, session=True) as broker,
        ):
            session, former = await asyncio.to_thread(self._session, broker.session_present)
            if former:
                broker.unsubscribe(former)
            transfer = _Transfer(broker, self.refused, self._file)
            stream = await SiteLog.open(server, site, transfer.stored)
            transfer.begin(stream, session, await stream.newest(session, HISTORY))
            subscribed = broker.subscribe(self._filters)
            if broker.session_present:
                endeavour.goes_on()
            while not (lost or is_cancelled()):
                await transfer.turn()
                if subscribed.done():
                    broker.check_subscribed(self._filters, subscribed.result())
                    endeavour.goes_on()
            if lost:
                raise ConnectionError(lost[0])

    def _session(self, present: bool) -> tuple[str, list[str]]:
        """Return the name of the session at the broker, and the subscriptions to cancel."""
        record = self._file.load() if present else self._file.renew(self._filters)
        self._file.save(record.model_copy(update={"filters": self._filters}))
        return record.session, [each for each in record.filters if each not in self._filters]


class _Transfer:
    """Messages under way over one pair of connections."""

    def __init__(self, broker: MqttConnection, refused: RefusedTopics, file: SessionFile) -> None:
        self._broker = broker
        self._refused = refused
        self._file = file
        # Invariant: all messages with QoS 1 that are not acknowledged, in order of receipt.
        self._unacknowledged: deque[_Delivery] = deque()
        self._on_the_way: dict[int, _Delivery] = {}
        self._passed = 0
        """Messages left out since the last stored one."""
        self._changed_at = 0.0

    def begin(self, stream: SiteLog, session: str, stored: Sequence[Identity]) -> None:
        """Go on after what the session has stored."""
        self._stream = stream
        self._session = session
        self._number = stored[-1].number if stored else 0
        self._overlap: Overlap[_Delivery] = Overlap([each.seen for each in stored if each.seen.packet])
        self._changed_at = asyncio.get_running_loop().time()

    def stored(self, number: int) -> None:
        """Note that the stream has stored this event."""
        delivery = self._on_the_way.pop(number, None)
        if delivery is not None:
            delivery.done = True
            self._broker.wake()

    async def turn(self) -> None:
        """Pass messages on, acknowledge stored ones, and wait for more. Raises when a side fails."""
        if len(self._on_the_way) < MOST_ON_THE_WAY:
            for message in self._broker.take_arrived():
                await self._take(message)
        now = asyncio.get_running_loop().time()
        if self._overlap.is_open and now - self._changed_at > OVERLAP_S:
            await self._send(self._overlap.give_up())
        while self._unacknowledged and self._unacknowledged[0].done:
            self._broker.acknowledge(self._unacknowledged.popleft().message.mid)
        self._broker.flush()
        await self._broker.wait_for_news(LOOK_S)
        self._broker.check()
        self._stream.check()

    async def _take(self, message: MQTTMessage) -> None:
        topic = message.topic
        subject = storable_subject(topic)
        delivery = _Delivery(message, subject or "", _seen(message))
        if message.qos:
            self._unacknowledged.append(delivery)
        if subject is None:
            await self._pass_over(delivery, UNSTORABLE)
        elif len(message.payload) > MAX_PAYLOAD - _HEADROOM:
            await self._pass_over(delivery, f"{len(message.payload)} bytes are too many")
        elif message.retain:
            delivery.done = True
        elif not message.qos:
            await self._send([delivery])
        else:
            if message.dup:
                self._changed_at = asyncio.get_running_loop().time()
            known, new = self._overlap.offer(delivery)
            for each in known:
                each.done = True
            await self._send(new)

    async def _send(self, deliveries: Sequence[_Delivery]) -> None:
        for delivery in deliveries:
            self._number += 1
            self._passed = 0
            if delivery.message.qos:
                self._on_the_way[self._number] = delivery
            identity = Identity(self._session, self._number, delivery.seen)
            message = delivery.message
            await self._stream.store(delivery.subject, bytes(message.payload), identity, event_id(message))

    async def _pass_over(self, delivery: _Delivery, why: str) -> None:
        delivery.done = True
        self._refused.add(delivery.message.topic, why)
        self._passed += 1
        if self._passed == HISTORY:
            # The broker used packet ids that were not stored. So stored messages must not be compared with
            # later ones.
            self._session = (await asyncio.to_thread(self._file.renew)).session


def _seen(message: MQTTMessage) -> Seen:
    content = message.topic.encode() + b"\0" + message.payload
    return Seen(message.mid if message.qos else 0, hashlib.blake2b(content, digest_size=8).hexdigest())
