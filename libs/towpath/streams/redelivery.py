"""Give results to the store of MQTT sessions that were on their way there when the site's server died.

An output stream republishes each result to that store, inside the server, and waits for nothing. What was on
its way when the server was killed is in the output only, and no subscriber would get it.

The store forgets a result as soon as each session has it. So a consumer without a reader, the *keeper*,
holds what the store has taken lately. Its metadata say how far each output had come when it was made. After
a restart, what follows in the output, and is not in the store, is missing. Every few seconds another keeper
takes the place of the last one. Without sessions there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from nats.js.api import AckPolicy, ConsumerConfig, ConsumerInfo, DeliverPolicy
from nats.js.errors import NotFoundError

from towpath.contracts.data_plane import (
    KEEPER_PREFIX,
    MESSAGE_ID_HEADER,
    MQTT_DELIVERY,
    MQTT_QOS_HEADER,
    MQTT_STORE,
    MQTT_STREAM,
    REPUBLISHED_FROM,
    REPUBLISHED_SERIAL,
)
from towpath.streams.pages import StoredMessage, pages_after
from towpath.streams.stream_view import StreamView, stream_view, stream_views
from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

IN_FLIGHT = 256


@dataclass(frozen=True)
class Keeper:
    """Holds what the store has taken after the serial number `after`."""

    after: int
    passed: Mapping[str, int]
    """Output, with its life → serial number up to which the store had its results by then."""

    @property
    def name(self) -> str:
        """Name of the consumer."""
        return f"{KEEPER_PREFIX}{self.after}"

    @classmethod
    def of(cls, info: ConsumerInfo) -> Keeper:
        """Read what JetStream says of a keeper."""
        passed = (info.config.metadata or {}).items()
        after = int(info.name.removeprefix(KEEPER_PREFIX))
        return cls(after, {key: int(serial) for key, serial in passed if serial.isdigit()})


class Redelivery:
    """The store of a site's MQTT sessions, and the outputs that republish to it.

    Methods raise `TimeoutError` when the server does not answer.
    """

    def __init__(self, streams: SiteStreams) -> None:
        self._streams = streams
        self._keeper: Keeper | None = None

    async def complete(self) -> int:
        """Publish to the store what it lacks after a restart of the server. Return the number of results.

        A restart need not have been. Then nothing is missing.
        """
        self._keeper, given = await self._found(), 0
        store = await self._store()
        if self._keeper is not None and store is not None:
            present = await self._present(self._keeper.after)
            # Its bounds may have cut off what the keeper holds. What that was is unknown, and counts as had.
            is_cut = store.last > self._keeper.after and store.first > self._keeper.after + 1
            for output in await self._outputs():
                after, there = self._keeper.passed.get(_key(output), 0), present[output.name]
                if is_cut:
                    after = max(after, min(there, default=output.last + 1) - 1)
                given += await self._give_missing(output, after, there)
        if given:
            log.info("%d results were given to sessions once more", given)
        await self.renew()
        return given

    async def renew(self) -> None:
        """Let the store forget what its sessions have, up to now."""
        store = await self._store()
        if store is None or store.consumers <= (self._keeper is not None):
            await self._forget(self._keeper)
            self._keeper = None
        elif self._keeper is None or store.last > self._keeper.after:
            before, self._keeper = self._keeper, await self._made(store.last, self._keeper)
            await self._forget(before)

    async def _found(self) -> Keeper | None:
        """Return the newest keeper, and delete others: the agent may have died between two."""
        keepers: list[Keeper] = []
        listed, some = 0, True
        with contextlib.suppress(NotFoundError):
            while some:
                some = await self._streams.jetstream.consumers_info(MQTT_STREAM, offset=listed)
                listed += len(some)
                keepers += [Keeper.of(each) for each in some if each.name.startswith(KEEPER_PREFIX)]
        keepers.sort(key=lambda keeper: keeper.after)
        for older in keepers[:-1]:
            await self._forget(older)
        return keepers[-1] if keepers else None

    async def _made(self, after: int, before: Keeper | None) -> Keeper:
        """Make a keeper of what the store takes after a serial number."""
        passed = {_key(output): await self._passed(output, before) for output in await self._outputs()}
        keeper = Keeper(after, passed)
        await self._streams.jetstream.add_consumer(
            MQTT_STREAM,
            ConsumerConfig(
                durable_name=keeper.name,
                ack_policy=AckPolicy.EXPLICIT,
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=after + 1,
                metadata={key: str(serial) for key, serial in passed.items()},
            ),
        )
        return keeper

    async def _passed(self, output: StreamView, before: Keeper | None) -> int:
        """Return the newest serial number of an output that the store has taken.

        Without a keeper before, that is taken to be all: a session that has just begun misses nothing older.
        """
        if before is None:
            return output.last
        passed = before.passed.get(_key(output), 0)
        subject = MQTT_STORE + output.republishes_to.removeprefix(MQTT_DELIVERY)
        try:
            found = await self._streams.jetstream.get_last_msg(MQTT_STREAM, subject)
        except NotFoundError:
            return passed
        headers = found.headers or {}
        of_this = headers.get(REPUBLISHED_FROM) == output.name
        return max(passed, int(headers[REPUBLISHED_SERIAL])) if of_this else passed

    async def _forget(self, keeper: Keeper | None) -> None:
        if keeper is not None:
            with contextlib.suppress(NotFoundError):
                await self._streams.jetstream.delete_consumer(MQTT_STREAM, keeper.name)

    async def _present(self, after: int) -> Mapping[str, set[int]]:
        """Return the serial numbers that the store has of each output, of what it took last."""
        present: defaultdict[str, set[int]] = defaultdict(set)
        async for page in pages_after(self._streams.connection, self._streams.site, MQTT_STREAM, after):
            for message in page:
                if source := message.headers.get(REPUBLISHED_FROM):
                    present[source].add(int(message.headers[REPUBLISHED_SERIAL]))
        return present

    async def _store(self) -> StreamView | None:
        return await stream_view(self._streams.connection, self._streams.site, MQTT_STREAM)

    async def _outputs(self) -> list[StreamView]:
        views = await stream_views(self._streams.connection, self._streams.site)
        return [view for view in views if view.republishes_to.startswith(MQTT_DELIVERY)]

    async def _give_missing(self, output: StreamView, after: int, present: set[int]) -> int:
        given = 0
        connection, site = self._streams.connection, self._streams.site
        async for page in pages_after(connection, site, output.name, after, through=output.last):
            missing = [message for message in page if message.serial not in present]
            for begin in range(0, len(missing), IN_FLIGHT):
                some = missing[begin : begin + IN_FLIGHT]
                given += sum(await asyncio.gather(*(self._give(output, message) for message in some)))
        return given

    async def _give(self, output: StreamView, message: StoredMessage) -> bool:
        """Publish a result as the output does. Return True if the store did not have it."""
        name, value = MQTT_QOS_HEADER
        headers = {
            name: value,
            MESSAGE_ID_HEADER: message.headers.get(MESSAGE_ID_HEADER, ""),
            REPUBLISHED_FROM: output.name,
            REPUBLISHED_SERIAL: str(message.serial),
        }
        jetstream = self._streams.jetstream
        answer = await jetstream.publish(output.republishes_to, message.body, headers=headers)
        return not answer.duplicate


def _key(output: StreamView) -> str:
    """Return a name for an output that another one, made later under the same name, does not have."""
    return f"{output.name}@{output.life}"
