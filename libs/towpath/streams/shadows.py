"""Shadow streams: results that wait beside a job's output while two sites run the job.

A shadow keeps the results of chosen epochs in the order in which they came. When the output changes its
owner, `settle` publishes the new owner's results from the shadow into the output. They keep their message
ids, so the output drops those that it holds already.

Everything here is repeated after a crash at any line. The streams themselves say where to go on.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from nats.aio.client import Client
from nats.js.api import StorageType, StreamConfig, StreamInfo
from nats.js.errors import NotFoundError

from towpath.contracts import data_plane
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.migration import OpenShadow, SetEpoch, Settlement
from towpath.streams.ownership import check_epoch, epoch_is_over
from towpath.streams.pages import StoredMessage, last_serial, page, pages_after
from towpath.streams.publisher import Outgoing, Publisher, PublisherBeside, stream_life
from towpath.streams.stored_ids import StoredIds
from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

REMEMBERED = timedelta(seconds=data_plane.DUPLICATE_WINDOW_S / 2)
"""An output remembers the ids of everything stored since a shadow was opened, if it is younger than this."""

PATIENCE_S = 10.0
"""Time for the site's own server to store the results taken over."""


class Shadows:
    """The shadow streams of the outputs of one site."""

    def __init__(self, streams: SiteStreams) -> None:
        self.streams = streams
        self.site = streams.site
        self.jetstream = streams.jetstream

    async def open(self, command: OpenShadow) -> int:
        """Keep the results of some epochs aside. Return the output's last serial number when that began.

        Raises `TowpathError` (fenced) when the output accepts one of these epochs, or a later one.
        """
        job, newest = command.job, max(command.epochs)
        accepted = await self.streams.outputs.accepted_epoch(command.output.stream)
        if accepted is not None and accepted >= newest:
            raise epoch_is_over(f"the output of {job}", newest, accepted)
        info = await self._ensure(command)
        if command.interim is not None and (accepted is None or accepted < command.interim):
            monitor = {command.interim: HUB_SCOPE}
            await self.streams.outputs.accept(job, monitor, command.output, diverted=min(command.epochs))
        return int((info.config.metadata or {})[data_plane.OUTPUT_SERIAL])

    async def _ensure(self, command: OpenShadow) -> StreamInfo:
        """Return the shadow of this operation. Replace one that an ended operation left.

        Raises `TowpathError` when a later one is open, or when results of a living owner wait in it.
        """
        job = command.job
        info = await self._info(job)
        if info is None:
            return await self._made(command)
        if _operation(info) == command.operation:
            return info
        if max(_epochs(info)) > max(command.epochs):
            raise epoch_is_over(f"the output of {job}", max(command.epochs), max(_epochs(info)))
        if _unsettled(info) is not None:
            raise TowpathError(
                ErrorCode.FAILED, f"results diverted by {_operation(info)} wait beside the output of {job}"
            )
        await self._delete(job)
        return await self._made(command)

    async def _made(self, command: OpenShadow) -> StreamInfo:
        job = command.job
        connection = self.streams.connection
        serial = await last_serial(connection, self.site, command.output.stream)
        rejected = await last_serial(connection, self.site, data_plane.rejected_stream(command.output.stream))
        config = StreamConfig(
            name=data_plane.shadow_stream(job),
            subjects=self._subjects(job, command.owners),
            storage=StorageType.FILE,
            duplicate_window=data_plane.DUPLICATE_WINDOW_S,
            allow_direct=True,
            metadata={
                data_plane.OUTPUT_SERIAL: str(serial),
                data_plane.REJECTED_SERIAL: str(rejected),
                data_plane.OPERATION: command.operation,
                data_plane.EPOCHS: ",".join(str(epoch) for epoch in sorted(command.epochs)),
                **({data_plane.UNSETTLED: str(min(command.epochs))} if command.interim is not None else {}),
            },
        )
        return await self.jetstream.add_stream(config)

    def _subjects(self, job: str, owners: Mapping[int, str]) -> list[str]:
        kinds = (data_plane.sink_subject, data_plane.rejected_subject)
        return [
            data_plane.shadow_subject(kind(self.site, owner, job, epoch))
            for epoch, owner in owners.items()
            for kind in kinds
        ]

    async def _info(self, job: str) -> StreamInfo | None:
        try:
            return await self.jetstream.stream_info(data_plane.shadow_stream(job))
        except NotFoundError:
            return None

    async def drop(self, job: str, *, operation: str | None = None, through: int | None = None) -> None:
        """Delete the shadow with its results, if there is one.

        With `operation`, only if that operation opened it. With `through`, only if it keeps no later epoch.
        So a command that comes late does not delete the shadow of the next migration.
        """
        info = await self._info(job)
        if info is None or (operation is not None and _operation(info) != operation):
            return
        if through is None or max(_epochs(info)) <= through:
            await self._delete(job)

    async def _delete(self, job: str) -> None:
        await self.jetstream.delete_stream(data_plane.shadow_stream(job))

    async def owed(self, command: SetEpoch) -> Settlement | None:
        """Return a settlement that a change of epoch owes although its command has none.

        That is so when an operation diverted an owner's results and ended without settling them.
        """
        info = await self._info(command.job)
        if info is None or max(_epochs(info)) >= command.epoch:
            return None
        diverted = _unsettled(info)
        return None if diverted is None else Settlement(epoch=diverted, interim=command.epoch - 1)

    async def settle(self, command: SetEpoch, settlement: Settlement) -> None:
        """Take over the results in the shadow, then let the output accept the new owner.

        1. While both still publish, read the ids that the output holds and its server may have forgotten.
        2. Close the shadow: anyone who publishes there waits, and finds the output later.
        3. Let the output refuse the old owner, and accept results from the shadow only. An owner that stays
           beside the new one is not refused: what it stores from now on, the server remembers.
        4. Publish the amended results, then the new owner's in the order of the shadow.
        5. Let the output accept the new owner.
        """
        job, epoch = command.job, command.epoch
        accepted = await self.streams.outputs.accepted_epoch(command.output.stream)
        check_epoch(f"the output of {job}", epoch, accepted)
        if accepted != epoch:
            info = await self._info(job)
            overlaps: dict[str, str] | None = None
            # This site takes the results over, so it is the interim owner, in place of the new one.
            interim = {e: owner for e, owner in command.owners.items() if e != epoch}
            interim[settlement.interim] = self.site
            if info is None:
                await self.streams.outputs.accept(job, interim, command.output)
            else:
                settlement = _of_the_owner(settlement, info)
                stored = await self._stored_ids(command, settlement, info)
                info = await self._frozen(info, job)
                await self.streams.outputs.accept(job, interim, command.output)
                await stored.read()
                overlaps = await self._overlaps(command, info)
                await self._take_over(command, settlement, stored)
                await self._settled(info)
            await self.streams.outputs.accept(job, command.owners, command.output, overlaps=overlaps)
        await self.drop(job, through=epoch)

    async def _frozen(self, shadow: StreamInfo, job: str) -> StreamInfo:
        closed = [data_plane.closed_shadow_subject(self.site, job)]
        if shadow.config.subjects == closed:
            return shadow
        return await self.jetstream.update_stream(shadow.config, subjects=closed)

    async def _settled(self, shadow: StreamInfo) -> None:
        """Note that the output has everything, before anyone publishes there who relies on that."""
        metadata = {k: v for k, v in (shadow.config.metadata or {}).items() if k != data_plane.UNSETTLED}
        await self.jetstream.update_stream(shadow.config, metadata=metadata)

    async def _take_over(self, command: SetEpoch, settlement: Settlement, stored: StoredIds) -> None:
        """Publish waiting results under the interim epoch, except those the output holds."""
        publisher = PublisherBeside(self.streams.connection, f"shadow-{command.job}", patience_s=PATIENCE_S)
        try:
            total, new = await self._publish_waiting(publisher, command, settlement, stored)
        finally:
            await publisher.close()
        log.info("%s: %d messages taken over from the shadow, %d were new", command.job, total, new)

    async def _publish_waiting(
        self, publisher: Publisher, command: SetEpoch, settlement: Settlement, stored: StoredIds
    ) -> tuple[int, int]:
        """Publish page by page. Return the numbers of all messages and of new ones."""
        job, output, interim = command.job, command.output.stream, settlement.interim
        total = new = 0
        for kind, stream, after in (
            # All rejected events: for them it does not matter in which window they would have been.
            (data_plane.rejected_subject, data_plane.rejected_stream(output), 0),
            (data_plane.sink_subject, output, settlement.after_position),
        ):
            subject, waits = (
                kind(self.site, self.site, job, interim),
                self._waiting(kind, job, settlement.epoch),
            )
            if stream == output:
                new += await self._amend(publisher, command, settlement, stored)
            async for messages in pages_after(*self._shadow(job), after, subject=waits):
                fresh = [message for message in messages if message.identity not in stored]
                total += len(messages)
                new += await self._store(publisher, fresh, subject, stream)
        return total, new

    async def _amend(
        self, publisher: Publisher, command: SetEpoch, settlement: Settlement, stored: StoredIds
    ) -> int:
        """Publish the amended results, except those that an earlier try has stored.

        They get the label of the micro-batch that comes after them.
        """
        job, output = command.job, command.output.stream
        life = await stream_life(self.streams.connection, self.site, output)
        subject = data_plane.sink_subject(self.site, self.site, job, settlement.interim)
        amended = [
            Outgoing(subject, identity, result.body.encode())
            for result in settlement.amended
            if (identity := data_plane.stored_id(life, result.identity)) not in stored
        ]
        if not amended:
            return 0
        behind = self._waiting(data_plane.sink_subject, job, settlement.epoch)
        label = await self._label(job, behind, settlement.after_position) or data_plane.NO_BATCH
        return await publisher.publish(amended, site=self.site, stream=output, batch=label)

    async def _label(self, job: str, waits: str, after: int) -> str | None:
        """Return the label of an owner's first message after a position of the shadow; None without one."""
        first = await page(*self._shadow(job), after + 1, 1, subject=waits)
        return data_plane.batch_of(first[0].headers) if first else None

    def _waiting(self, kind: Callable[[str, str, str, int], str], job: str, epoch: int) -> str:
        """Return the subject of what waits in the shadow under an epoch: it took that owner's only."""
        return data_plane.shadow_subject(kind(self.site, "*", job, epoch))

    def _shadow(self, job: str) -> tuple[Client, str, str]:
        """Return connection, site and name for reading a shadow."""
        return self.streams.connection, self.site, data_plane.shadow_stream(job)

    async def _stored_ids(self, command: SetEpoch, settlement: Settlement, shadow: StreamInfo) -> StoredIds:
        """Return the ids of messages that the output holds, although its server may have forgotten the ids.

        Messages from before the shadow was opened may be of any age. A run that goes on from a checkpoint
        repeats its own, however long its job stood still, and those of others that it was not yet past.
        """
        marks = dict(_marks(command.output, shadow))
        age = datetime.now(UTC) - (shadow.created or datetime.now(UTC))
        stored = StoredIds(self.streams.connection, self.site, marks if age >= REMEMBERED else {})
        await stored.read()
        for kind, stream in zip((data_plane.sink_subject, data_plane.rejected_subject), marks, strict=True):
            await stored.read_overlap(stream, await self.streams.outputs.overlap_of(stream))
            label = await self._label(command.job, self._waiting(kind, command.job, settlement.epoch), 0)
            if label is not None:
                await stored.read_back(stream, marks[stream], label)
        return stored

    async def _overlaps(self, command: SetEpoch, shadow: StreamInfo) -> dict[str, str]:
        """Return, for each stream, the span stored since the shadow was opened, see `data_plane.OVERLAP`.

        It has no end yet if another owner goes on.
        """
        overlaps: dict[str, str] = {}
        for stream, after in _marks(command.output, shadow):
            last = "" if command.beside else await last_serial(self.streams.connection, self.site, stream)
            overlaps[stream] = await self.streams.outputs.widened_overlap(stream, f"{after}-{last}")
        return overlaps

    async def _store(
        self, publisher: Publisher, messages: list[StoredMessage], subject: str, stream: str
    ) -> int:
        """Publish messages again, micro-batch by micro-batch: each message keeps its label."""
        stored = 0
        by_batch = itertools.groupby(messages, key=lambda m: data_plane.batch_of(m.headers))
        for label, group in by_batch:
            outgoing = [Outgoing(subject, message.identity, message.body) for message in group]
            stored += await publisher.publish(outgoing, site=self.site, stream=stream, batch=label)
        return stored


def _marks(output: ResolvedOutput, shadow: StreamInfo) -> list[tuple[str, int]]:
    """Return the output streams, with their last serial number when the shadow was opened."""
    metadata = shadow.config.metadata or {}
    return [
        (output.stream, int(metadata.get(data_plane.OUTPUT_SERIAL, "0"))),
        (data_plane.rejected_stream(output.stream), int(metadata.get(data_plane.REJECTED_SERIAL, "0"))),
    ]


def _of_the_owner(settlement: Settlement, shadow: StreamInfo) -> Settlement:
    """Return the settlement to make. The owner's results in another operation's shadow come first."""
    diverted = _unsettled(shadow)
    if settlement.epoch in _epochs(shadow) or diverted is None:
        return settlement
    return Settlement(epoch=diverted, interim=settlement.interim)


def _operation(shadow: StreamInfo) -> str:
    return (shadow.config.metadata or {}).get(data_plane.OPERATION, "")


def _unsettled(shadow: StreamInfo) -> int | None:
    """Return the epoch of the owner whose results only the shadow has; None if the output has them all."""
    epoch = (shadow.config.metadata or {}).get(data_plane.UNSETTLED)
    return None if epoch is None else int(epoch)


def _epochs(shadow: StreamInfo) -> list[int]:
    """Return the epochs whose results it keeps, in ascending order."""
    return [int(epoch) for epoch in (shadow.config.metadata or {}).get(data_plane.EPOCHS, "0").split(",")]
