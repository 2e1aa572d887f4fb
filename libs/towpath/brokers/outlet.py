"""From the site's output streams to a broker: results and rejected events, QoS 1, in order.

Each output stream keeps the place of the bridge itself, as a consumer. The place moves on when the broker has
acknowledged. When a bridge is killed, or a connection lost, before that move, results are published again, as
QoS 1 allows. None is left out, and none overtakes another.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from paho.mqtt.reasoncodes import ReasonCode

from towpath.brokers.retrying import Endeavour, is_cancelled
from towpath.brokers.site_log import connected, request
from towpath.contracts.data_plane import (
    BROADCAST_STREAM,
    DEAD_LETTER_STREAM_PREFIX,
    MQTT_DELIVERY,
    OUTPUT_STREAM_PREFIX,
    api_prefix,
    broadcast_topic,
    storing_times,
    topic_of,
)
from towpath.mesh.state import SiteAccess
from towpath.mqtt.broker_address import BrokerAddress
from towpath.mqtt.connection import MqttConnection
from towpath.streams.pages import page
from towpath.streams.stream_view import StreamView, stream_view

log = logging.getLogger(__name__)

CONSUMER = "bridge"
"""Name of the bridge's place in each output stream."""

LOOK_S = 1.0
"""Between two looks for output streams that came or went."""

BATCH = 500
"""Number of results after which the place in the stream moves on."""

PUBLISHED_S = 30.0
"""Time for the broker to acknowledge a batch."""

REFUSED_S = 5.0
"""Between two attempts at a topic that the broker refuses. Other outputs continue meanwhile."""

WAIT_S = 5.0
"""Time that a request for results waits when there are none."""

_ACK_WAIT_S = 60.0
"""Longer than a batch can take, so that the server does not deliver it again meanwhile."""

_PREFIXES = (OUTPUT_STREAM_PREFIX, DEAD_LETTER_STREAM_PREFIX, BROADCAST_STREAM)
_NOT_FOUND = 404
_NOTHING_MORE = frozenset({"404", "408"})
_REFUSED = 0x80
"""Reason codes from here on mean refusal. A broker of MQTT 3.1.1 does not tell."""


class _GoneError(Exception):
    """The stream was deleted."""


class _RefusedError(Exception):
    """The broker does not let the bridge publish there."""


class Outlet:
    """Carries results from the output streams to the broker, until cancelled."""

    def __init__(
        self,
        access: SiteAccess,
        address: Callable[[], BrokerAddress],
        client_id: str,
        since: Callable[[], datetime],
    ) -> None:
        self._access = access
        self._address = address
        self._client_id = client_id
        self._since = since
        self._refusals: dict[str, str] = {}
        self._endeavour = Endeavour("results to the broker", self._attempt)

    @property
    def trouble(self) -> str | None:
        """Reason why some or all results are not published now. None if they are."""
        return self._endeavour.trouble or next(iter(self._refusals.values()), None)

    async def run(self) -> None:
        """Carry results until cancelled."""
        await self._endeavour.run()

    async def _attempt(self, endeavour: Endeavour) -> None:
        site = self._access.spec.name
        lost: list[str] = []
        address = await asyncio.to_thread(self._address)  # Each time, as the password may be corrected.
        since = await asyncio.to_thread(self._since)
        async with (
            connected(self._access, lost.append) as server,
            MqttConnection(address, self._client_id, session=False) as broker,
            asyncio.TaskGroup() as tasks,
        ):
            # A group ends when one of its members raises, so either side ends all.
            tasks.create_task(_keep(broker, lost))
            ends = _Ends(server, broker, site, asyncio.Semaphore(broker.window), since, self._refusals)
            tasks.create_task(_watch(ends, tasks))
            endeavour.goes_on()


async def _watch(ends: _Ends, tasks: asyncio.TaskGroup) -> None:
    """Carry every output stream, also later ones."""
    carried: dict[str, asyncio.Task[None]] = {}
    while not is_cancelled():
        carried = {name: task for name, task in carried.items() if not task.done()}
        for name in await _output_streams(ends.server, ends.site):
            if name not in carried:
                carried[name] = tasks.create_task(_Passage(ends, name).run(), name=f"results of {name}")
        await asyncio.sleep(LOOK_S)


async def _keep(broker: MqttConnection, lost: Sequence[str]) -> None:
    while not lost:
        broker.flush()
        await broker.wait_for_news(LOOK_S)
        broker.check()
    raise ConnectionError(lost[0])


async def _output_streams(server: Client, site: str) -> list[str]:
    found: list[str] = []
    while True:
        answer = await request(server, site, "STREAM.NAMES", {"offset": len(found)})
        page = answer.get("streams") or []
        found += page
        if not page or len(found) >= answer["total"]:
            return [name for name in found if name.startswith(_PREFIXES)]


@dataclass(frozen=True)
class _Ends:
    """Connections and limits that all passages share."""

    server: Client
    broker: MqttConnection
    site: str
    room: asyncio.Semaphore
    """Limit of results without acknowledgement, for all passages together."""
    since: datetime
    refusals: dict[str, str]
    """Stream → reason why the broker refuses its topic."""


class _Passage:
    """One output stream on its way to the broker."""

    def __init__(self, ends: _Ends, stream: str) -> None:
        self._ends = ends
        self._stream = stream
        self._inbox = ends.server.new_inbox()
        self._arrived: asyncio.Queue[Msg] = asyncio.Queue()
        self._taken = 0
        """Results that came since the passage took its place."""
        self._begin: dict[str, Any] = {}
        """Where the place is made, as the server takes it."""

    async def run(self) -> None:
        """Publish what the stream stores until it is deleted."""
        try:
            view = await self._view()
            if view.fed_by is not None:
                return  # A copy of another site's output, which publishes nothing here.
            topic = topic_of(view.republishes_to.removeprefix(MQTT_DELIVERY))
            self._begin = await self._beginning(view)
            await self._take_place()
            await self._ends.server.subscribe(self._inbox, cb=self._arrived.put)
            while not is_cancelled():
                if batch := await self._next():
                    await self._move(topic, batch)
        except _GoneError:
            log.info("%s is gone", self._stream)
        finally:
            self._ends.refusals.pop(self._stream, None)

    async def _move(self, topic: str, batch: Sequence[Msg]) -> None:
        """Publish a batch and move on. Repeat a batch that is refused."""
        try:
            await self._publish(topic, batch)
        except _RefusedError as error:
            if self._stream not in self._ends.refusals:
                log.warning("the broker refuses results of %s", error)
            self._ends.refusals[self._stream] = f"the broker refuses results of {error}"
            await asyncio.sleep(REFUSED_S)
            await self._take_place()
        else:
            self._ends.refusals.pop(self._stream, None)
            await self._ends.server.request(batch[-1].reply, b"+ACK", timeout=WAIT_S)

    async def _view(self) -> StreamView:
        view = await stream_view(self._ends.server, self._ends.site, self._stream)
        if view is None:
            raise _GoneError
        return view

    async def _beginning(self, output: StreamView) -> dict[str, Any]:
        """Return where the bridge begins in an output, as the server takes it.

        It passes over what a promoted copy had, if the last of that was stored after the bridge was set up:
        the bridge of the lost site has published it.
        """
        since, former = self._ends.since, output.promoted_after
        copied = await page(self._ends.server, self._ends.site, self._stream, former, 1) if former else []
        if any(datetime.fromisoformat(storing_times(one.headers)[0]) >= since for one in copied):
            return {"deliver_policy": "by_start_sequence", "opt_start_seq": former + 1}
        return {"deliver_policy": "by_start_time", "opt_start_time": since.isoformat()}

    async def _take_place(self) -> None:
        """Return to the last acknowledgement. Make the place if there is none yet."""
        path = f"{self._stream}.{CONSUMER}"
        config = {
            "durable_name": CONSUMER,
            "ack_policy": "all",
            "ack_wait": int(_ACK_WAIT_S * 1e9),
            "max_ack_pending": 2 * BATCH,
            **self._begin,
        }
        self._taken = 0
        known = await request(self._ends.server, self._ends.site, f"CONSUMER.INFO.{path}", {})
        if "error" in known:
            await self._ask(f"CONSUMER.CREATE.{path}", {"stream_name": self._stream, "config": config})
        else:
            await self._ask(f"CONSUMER.RESET.{path}", {})

    async def _ask(self, call: str, body: dict) -> dict:
        answer = await request(self._ends.server, self._ends.site, call, body)
        if "error" not in answer:
            return answer
        if answer["error"].get("code") == _NOT_FOUND:
            raise _GoneError
        raise ConnectionError(f"{self._stream}: {answer['error'].get('description')}")

    async def _next(self) -> list[Msg]:
        """Return the next results in order. Empty when there are none for a while."""
        batch = await self._pull({"batch": BATCH, "no_wait": True}, BATCH)
        return batch or await self._pull({"batch": 1, "expires": int(WAIT_S * 1e9)}, 1)

    async def _pull(self, body: dict, most: int) -> list[Msg]:
        call = f"{api_prefix(self._ends.site)}.CONSUMER.MSG.NEXT.{self._stream}.{CONSUMER}"
        await self._ends.server.publish(call, json.dumps(body).encode(), reply=self._inbox)
        batch: list[Msg] = []
        while len(batch) < most:
            async with asyncio.timeout(2 * WAIT_S):
                message = await self._arrived.get()
            status = (message.headers or {}).get("Status")
            if status in _NOTHING_MORE:
                break
            if status is not None:
                await self._view()
                raise ConnectionError(f"the server ends the reading of {self._stream}: {status}")
            self._taken += 1
            if message.metadata.sequence.consumer != self._taken:
                # An earlier reader got it, which is gone. After it nothing may be published.
                raise ConnectionError(f"a result of {self._stream} went astray")
            batch.append(message)
        return batch

    async def _publish(self, topic: str, batch: Sequence[Msg]) -> None:
        """Publish, and wait until the broker has acknowledged all. Raises `_RefusedError`."""
        answers: list[asyncio.Future[list[ReasonCode]]] = []
        async with asyncio.timeout(PUBLISHED_S):
            for message in batch:
                await self._ends.room.acquire()
                to = broadcast_topic(message.subject) if self._stream == BROADCAST_STREAM else topic
                answer = self._ends.broker.publish(to, message.data)
                answer.add_done_callback(lambda _: self._ends.room.release())
                answers.append(answer)
            for answer in answers:
                [code] = await answer
                if code.value >= _REFUSED:
                    raise _RefusedError(f"{topic}: {code}")
