"""Ordinary MQTT subscribers that record what they receive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Self

from paho.mqtt.client import MQTTMessage

from towpath.checker.identity import IdentityOf, identity_of
from towpath.checker.observation import ReceivedMessage, observe
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mqtt.broker_address import BrokerAddress
from towpath.mqtt.connection import MqttConnection
from towpath.tasks import end

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_LOOK_S = 1.0
"""Pause between looks at the connection when nothing comes."""


class ResultCollector:
    """One subscriber at one broker, with QoS 1 and a session that outlives its connections.

        async with ResultCollector(broker, ["departures/hourly"], "checker") as collector:
            ...
            await collector.wait_until(lambda: len(collector.observations) >= 100, within_s=30)

    A subscriber that comes back gets the messages that the broker stored meanwhile. MQTT QoS 1 is *at least
    once*. A message whose acknowledgement the broker did not get, or lost when it was killed, must come again
    on the next connection; one that was acknowledged late comes again on the same connection. Observations
    have the connection's number and the broker's DUP flag, so that `judge` can tell such copies
    (`redelivered`) from results that were published twice (`duplicated`).

    The session is a new one, named after `client_id`, so that it has no messages of an earlier run. It is
    removed from the broker at the end. A topic must belong to one collector only, or each result counts
    twice.
    """

    def __init__(
        self,
        broker: BrokerAddress,
        topics: Sequence[str],
        client_id: str,
        identity: IdentityOf = identity_of,
        ready_within_s: float = 15.0,
    ) -> None:
        if not topics:
            raise TowpathError(ErrorCode.INVALID, "nothing to subscribe to", field="topics", allowed="topics")
        self.client_id = client_id
        # Not removed and created again under one name: a broker takes the two connections for rivals, and
        # the end of the first could remove the second one's subscriptions.
        self._session = f"{client_id}-{secrets.token_hex(4)}"
        self.observations: list[ReceivedMessage] = []
        """Received messages, in order of receipt."""
        self.connections = 0
        """Number of times that the broker accepted the subscriber."""
        self._broker = broker
        self._topics = list(topics)
        self._identity = identity
        self._ready_within_s = ready_within_s
        self._subscribed = asyncio.Event()
        self._received = asyncio.Event()
        self._why_not = "no answer"
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Connect and subscribe. Raises `TowpathError` if that does not succeed in `ready_within_s`."""
        self._task = asyncio.create_task(self._collect(), name=f"collect {self.client_id}")
        self._task.add_done_callback(self._wake)
        try:
            async with asyncio.timeout(self._ready_within_s):
                await self._subscribed.wait()
                self.check()
        except BaseException as error:
            await self._stop()
            if isinstance(error, TimeoutError):
                raise self._unreachable() from None
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop, and remove the session if the broker is within reach."""
        await self._stop()
        with contextlib.suppress(OSError, TowpathError):
            await self._remove_session()

    async def wait_until(self, condition: Callable[[], bool], within_s: float) -> None:
        """Wait until the condition holds. It is checked after each message. Raises `TowpathError`."""
        try:
            async with asyncio.timeout(within_s):
                while not condition():
                    self.check()
                    self._received.clear()
                    await self._received.wait()
        except TimeoutError:
            raise TowpathError(
                ErrorCode.DEADLINE,
                f"{self.client_id} waited {within_s} s in vain; {len(self.observations)} messages came",
            ) from None

    def check(self) -> None:
        """Raise the error that ended the collecting, if there was one. A lost connection does not end it."""
        if self._task is not None and self._task.done():
            self._task.result()

    def _wake(self, _: asyncio.Task[None]) -> None:
        self._subscribed.set()
        self._received.set()

    async def _stop(self) -> None:
        if self._task is not None:
            await end([self._task])
            self._task = None

    async def _collect(self) -> None:
        """Stay connected until cancelled. Raises `TowpathError` where the broker refuses login or topic."""
        pause = _FIRST_PAUSE_S
        while True:
            began = self.connections
            try:
                async with MqttConnection(self._broker, self._session, session=True) as connection:
                    self.connections += 1
                    await self._receive(connection)
            except ConnectionError as error:
                self._why_not = str(error)
                _log.info("%s lost its broker: %s", self.client_id, error)
            pause = _FIRST_PAUSE_S if self.connections > began else pause
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _receive(self, connection: MqttConnection) -> None:
        """Record and acknowledge the messages of a connection for as long as it lasts."""
        answer = connection.subscribe(self._topics)
        answered = False
        while True:
            connection.check()
            for message in connection.take_arrived():
                self._record(message)
                connection.acknowledge(message.mid)
            connection.flush()
            if answer.done() and not answered:
                connection.check_subscribed(self._topics, answer.result(), field="topics")
                answered = True
                self._subscribed.set()
            await connection.wait_for_news(_LOOK_S)

    def _record(self, message: MQTTMessage) -> None:
        seen = observe(
            bytes(message.payload),
            self._identity,
            time.time(),
            self.connections,
            message.topic,
            self.client_id,
            dup=message.dup,
        )
        self.observations.append(seen)
        self._received.set()

    async def _remove_session(self) -> None:
        """Connect without a session: so MQTT 3.1.1 forgets one. Raises `OSError`, `TowpathError`."""
        async with MqttConnection(self._broker, self._session, session=False):
            pass

    def _unreachable(self) -> TowpathError:
        return TowpathError(
            ErrorCode.UNREACHABLE,
            f"{self.client_id} could not subscribe at {self._broker} in {self._ready_within_s} s: "
            f"{self._why_not}",
        )


class ResultCollectors:
    """Several collectors, one for each site, that start and end together."""

    def __init__(self, *collectors: ResultCollector) -> None:
        names = [collector.client_id for collector in collectors]
        if len(set(names)) < len(names):
            raise TowpathError(ErrorCode.INVALID, "two collectors share a client id", field="client_id")
        self.collectors = collectors
        self._exits = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start all; if one cannot, none runs on."""
        async with contextlib.AsyncExitStack() as exits:
            for collector in self.collectors:
                await exits.enter_async_context(collector)
            self._exits = exits.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop all."""
        await self._exits.aclose()

    @property
    def observations(self) -> list[ReceivedMessage]:
        """Messages that all of them received, in order of receipt."""
        together = [o for collector in self.collectors for o in collector.observations]
        return sorted(together, key=lambda observation: observation.received_at)

    async def wait_until(self, condition: Callable[[], bool], within_s: float) -> None:
        """Wait until the condition holds. It is checked every tenth of a second. Raises `TowpathError`."""
        try:
            async with asyncio.timeout(within_s):
                while not condition():
                    for collector in self.collectors:
                        collector.check()
                    await asyncio.sleep(0.1)
        except TimeoutError:
            count = sum(len(collector.observations) for collector in self.collectors)
            raise TowpathError(
                ErrorCode.DEADLINE, f"waited {within_s} s in vain; {count} messages came"
            ) from None
