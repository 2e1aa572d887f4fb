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
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nats.aio.client import Client
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
from towpath.contracts.message import now
from towpath.streams.broadcasts import time_left
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
            passed = dict(self._keeper.passed)
            for output in await self._outputs():
                after = self._keeper.passed.get(_key(output), output.promoted_after)
                given += await self._give_missing(output, after, present, is_cut=is_cut)
                passed[_key(output)] = output.last
            self._keeper = replace(self._keeper, passed=passed)
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
            stats = self._streams.connection.stats
            before, reconnects = self._keeper, stats["reconnects"]
            made = await self._made(store.last, before)
            if stats["reconnects"] != reconnects:
                # What the server lost when it died may lie between the answers.
                await self._forget(made)
                raise TimeoutError("the server was lost meanwhile")
            self._keeper = made
            await self._forget(before)

    async def _found(self) -> Keeper | None:
        """Return the oldest keeper, which holds most. Delete others: the agent may have died between two."""
        keepers: list[Keeper] = []
        listed, some = 0, True
        with contextlib.suppress(NotFoundError):
            while some:
                some = await self._streams.jetstream.consumers_info(MQTT_STREAM, offset=listed)
                listed += len(some)
                keepers += [Keeper.of(each) for each in some if each.name.startswith(KEEPER_PREFIX)]
        keepers.sort(key=lambda keeper: keeper.after)
        for newer in keepers[1:]:
            await self._forget(newer)
        return keepers[0] if keepers else None

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
        passed = before.passed.get(_key(output), output.promoted_after)
        if passed == output.last:
            return passed
        jetstream, subject = self._streams.jetstream, _subject(output)
        try:
            headers = (await jetstream.get_last_msg(MQTT_STREAM, subject)).headers or {}
        except NotFoundError:
            return passed
        if headers.get(REPUBLISHED_FROM) == output.name:
            return max(passed, _republished_serial(headers))
        # Others write to its topic, too, and what was given here may be older than results before it.
        return max(passed, await self._newest(output, before.after))

    async def _newest(self, output: StreamView, after: int) -> int:
        """Return the serial number of an output's newest result that the store took after its own `after`.

        It is 0 if there is none.
        """
        newest, (connection, site) = 0, self._at
        async for page in pages_after(connection, site, MQTT_STREAM, after, subject=_subject(output)):
            own = (message for message in page if message.identity.startswith(f"{output.life}/"))
            newest = max([newest, *(_republished_serial(message.headers) for message in own)])
        return newest

    async def _forget(self, keeper: Keeper | None) -> None:
        if keeper is not None:
            with contextlib.suppress(NotFoundError):
                await self._streams.jetstream.delete_consumer(MQTT_STREAM, keeper.name)

    @property
    def _at(self) -> tuple[Client, str]:
        return self._streams.connection, self._streams.site

    async def _present(self, after: int) -> set[str]:
        """Return the message ids of what the store took last. It has them from the outputs."""
        connection, site = self._at
        reading = pages_after(connection, site, MQTT_STREAM, after)
        return {message.headers.get(MESSAGE_ID_HEADER, "") async for page in reading for message in page}

    async def _store(self) -> StreamView | None:
        connection, site = self._at
        return await stream_view(connection, site, MQTT_STREAM)

    async def _outputs(self) -> list[StreamView]:
        connection, site = self._at
        views = await stream_views(connection, site)
        return [view for view in views if view.republishes_to.startswith(MQTT_DELIVERY)]

    async def _give_missing(self, output: StreamView, after: int, present: set[str], *, is_cut: bool) -> int:
        """Give the store those results after a serial number that are not `present`. Return their number.

        `is_cut`: only those that follow one which is present. What the store had before is unknown.
        """
        given, (connection, site), counts = 0, self._at, not is_cut
        async for page in pages_after(connection, site, output.name, after, through=output.last):
            missing: list[StoredMessage] = []
            for message in page:
                if message.headers.get(MESSAGE_ID_HEADER, "") in present:
                    counts = True
                elif counts:
                    missing.append(message)
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
            REPUBLISHED_SERIAL: str(message.serial),
            **time_left(message.headers, now()),
        }
        jetstream = self._streams.jetstream
        answer = await jetstream.publish(_destination(output, message), message.body, headers=headers)
        return not answer.duplicate


def _republished_serial(headers: Mapping[str, str]) -> int:
    """Return a result's serial number in its output; 0 if it has come another way."""
    return int(headers.get(REPUBLISHED_SERIAL, 0))


def _destination(output: StreamView, message: StoredMessage) -> str:
    """Return the subject to which an output republishes a message. That of a broadcast ends as its own."""
    if not output.republishes_to.endswith(">"):
        return output.republishes_to
    return output.republishes_to.removesuffix(">") + message.subject.partition(".")[2]


def _subject(output: StreamView) -> str:
    """Return the subject under which the store has an output's results."""
    return MQTT_STORE + output.republishes_to.removeprefix(MQTT_DELIVERY)


def _key(output: StreamView) -> str:
    """Return a name for an output that another one, made later under the same name, does not have."""
    return f"{output.name}@{output.life}"
