"""Ordinary MQTT subscribers that record what they receive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Self

import aiomqtt

from towpath.checker.identity import IdentityOf, identity_of
from towpath.checker.observation import Observation, observe
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.tasks import end

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_ANSWER_WITHIN_S = 5.0
_KEEPALIVE_S = 15
_REFUSED = 0x80
"""Answers to a subscription from here on mean refusal."""


class ResultCollector:
    """One subscriber at one broker: QoS 1, a session that outlives its connections.

        async with ResultCollector("127.0.0.1", 1883, ["departures/hourly"], "checker") as collector:
            ...
            await collector.wait_until(lambda: len(collector.observations) >= 100, within_s=30)

    Whatever the broker stored while the subscriber was away reaches it on return. MQTT QoS 1 is *at least
    once*: a message whose acknowledgement the broker did not get, or lost when it was killed, comes again
    on the next connection, and must. Observations carry the connection's number, so that `judge` can tell
    such copies (`redelivered`) from results that were published twice (`duplicated`).

    The session is a new one, named after `client_id`, so that nothing of an earlier run comes along; it is
    removed from the broker at the end. A topic must belong to one collector only, or each result counts
    twice.
    """

    def __init__(
        self,
        host: str,
        port: int,
        topics: Sequence[str],
        client_id: str,
        username: str | None = None,
        password: str | None = None,
        identity: IdentityOf = identity_of,
        ready_within_s: float = 15.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not topics:
            raise TowpathError(ErrorCode.INVALID, "nothing to subscribe to", field="topics", allowed="topics")
        self.client_id = client_id
        # Not removed and made again under one name: to a broker the two connections are rivals, and the
        # end of the first could take the second one's subscriptions along.
        self._session = f"{client_id}-{secrets.token_hex(4)}"
        self.observations: list[Observation] = []
        """What came, in order of receipt."""
        self.connections = 0
        """How many times the broker accepted the subscriber."""
        self._address = (host, port)
        self._topics = list(topics)
        self._login = (username, password)
        self._tls = tls
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
        """Stop, and remove the session if the broker is there to do so."""
        await self._stop()
        with contextlib.suppress(aiomqtt.MqttError):
            await self._remove_session()

    async def wait_until(self, condition: Callable[[], bool], within_s: float) -> None:
        """Wait until the condition holds; it is asked after each message. Raises `TowpathError`."""
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
        """Raise what ended the collecting, if anything did: a lost connection does not."""
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
        """Stay connected until cancelled."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                async with self._client(clean_session=False) as client:
                    self.connections += 1
                    await self._subscribe(client)
                    self._subscribed.set()
                    pause = _FIRST_PAUSE_S
                    async for message in client.messages:
                        self._record(message)
            except aiomqtt.MqttError as error:
                self._why_not = str(error)
                _log.info("%s lost its broker: %s", self.client_id, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _subscribe(self, client: aiomqtt.Client) -> None:
        """Raises `TowpathError` for a topic that the broker refuses."""
        answers = await client.subscribe([(topic, 1) for topic in self._topics])
        for topic, answer in zip(self._topics, answers, strict=True):
            code = answer if isinstance(answer, int) else answer.value
            if code >= _REFUSED:
                raise TowpathError(
                    ErrorCode.NOT_ALLOWED, "the broker refused the topic", field="topics", value=topic
                )

    def _record(self, message: aiomqtt.Message) -> None:
        payload = message.payload if isinstance(message.payload, bytes) else str(message.payload).encode()
        self.observations.append(
            observe(
                payload, self._identity, time.time(), self.connections, message.topic.value, self.client_id
            )
        )
        self._received.set()

    async def _remove_session(self) -> None:
        """Connecting with a clean session is how MQTT 3.1.1 forgets one. Raises `MqttError`."""
        async with self._client(clean_session=True):
            pass

    def _client(self, clean_session: bool) -> aiomqtt.Client:
        host, port = self._address
        username, password = self._login
        return aiomqtt.Client(
            host,
            port,
            username=username,
            password=password,
            identifier=self._session,
            clean_session=clean_session,
            timeout=_ANSWER_WITHIN_S,
            keepalive=_KEEPALIVE_S,
            tls_context=self._tls,
        )

    def _unreachable(self) -> TowpathError:
        host, port = self._address
        return TowpathError(
            ErrorCode.UNREACHABLE,
            f"{self.client_id} could not subscribe at {host}:{port} in {self._ready_within_s} s: "
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
    def observations(self) -> list[Observation]:
        """What all of them received, in order of receipt."""
        together = [o for collector in self.collectors for o in collector.observations]
        return sorted(together, key=lambda observation: observation.received_at)

    async def wait_until(self, condition: Callable[[], bool], within_s: float) -> None:
        """Wait until the condition holds; it is asked every tenth of a second. Raises `TowpathError`."""
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
