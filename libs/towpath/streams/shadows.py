"""Shadow streams: results that wait beside a job's output while two sites run the job.

A shadow keeps the results of chosen epochs in the order in which they came. When the ownership of the
output changes, what the new owner has published there is taken over into the output (`settle`), under
the message ids it has, so that what the output holds already is dropped.

Everything here is repeated after a crash at any line, and goes on where the streams themselves say.
"""

from __future__ import annotations

import itertools
import logging
from datetime import UTC, datetime, timedelta

from nats.aio.client import Client
from nats.js.api import StorageType, StreamConfig, StreamInfo
from nats.js.errors import NotFoundError

from towpath.contracts import data_plane
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.migration import OpenShadow, SetEpoch, Settlement
from towpath.streams.ownership import check_epoch, epoch_is_over
from towpath.streams.pages import StoredMessage, last_serial, page, pages_after
from towpath.streams.publisher import Outgoing, Publisher, always, stream_life
from towpath.streams.stored_ids import StoredIds
from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

REMEMBERED = timedelta(seconds=data_plane.DUPLICATE_WINDOW_S / 2)
"""Younger than this, the output remembers the ids of all that was stored since a shadow was opened."""

PATIENCE_S = 10.0
"""For the site's own server to store what is taken over."""


class Shadows:
    """The shadow streams of the outputs of one site."""

    def __init__(self, streams: SiteStreams) -> None:
        self.streams = streams
        self.site = streams.site
        self.jetstream = streams.jetstream

    async def open(self, command: OpenShadow) -> int:
        """Keep the results of some epochs aside; the output's last serial number when that began.

        Raises `TowpathError` (fenced) when the output accepts one of these epochs, or a later one.
        """
        job, newest = command.job, max(command.epochs)
        accepted = await self.streams.accepted_epoch(command.output.stream)
        if accepted is not None and accepted >= newest:
            raise epoch_is_over(f"the output of {job}", newest, accepted)
        info = await self._ensure(command)
        if command.interim is not None and (accepted is None or accepted < command.interim):
            await self.streams.accept(job, command.interim, command.output, diverted=min(command.epochs))
        return int((info.config.metadata or {})[data_plane.OUTPUT_SERIAL])

    async def _ensure(self, command: OpenShadow) -> StreamInfo:
        """The shadow of this operation. One that an ended operation left is replaced: its epochs are used
        up. Raises `TowpathError`: a later one is open, or results of a living owner wait in it."""
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
            subjects=self._subjects(job, command.epochs),
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

    def _subjects(self, job: str, epochs: list[int]) -> list[str]:
        kinds = (data_plane.sink_subject, data_plane.rejected_subject)
        return [data_plane.shadow_subject(kind(self.site, job, epoch)) for epoch in epochs for kind in kinds]

    async def _info(self, job: str) -> StreamInfo | None:
        try:
            return await self.jetstream.stream_info(data_plane.shadow_stream(job))
        except NotFoundError:
            return None

    async def drop(self, job: str, *, operation: str | None = None, through: int | None = None) -> None:
        """Delete the shadow with what is in it, if there is one.

        With `operation` only if that one opened it, with `through` only if it keeps no later epoch: a
        command that comes late must not take the shadow of the next migration.
        """
        info = await self._info(job)
        if info is None or (operation is not None and _operation(info) != operation):
            return
        if through is None or max(_epochs(info)) <= through:
            await self._delete(job)

    async def _delete(self, job: str) -> None:
        await self.jetstream.delete_stream(data_plane.shadow_stream(job))

    async def owed(self, command: SetEpoch) -> Settlement | None:
        """What a change of epoch must settle although the command does not say so: results of an owner
        that were diverted by an operation which never came to settle them."""
        info = await self._info(command.job)
        if info is None or max(_epochs(info)) >= command.epoch:
            return None
        diverted = _unsettled(info)
        return None if diverted is None else Settlement(epoch=diverted, interim=command.epoch - 1)

    async def settle(self, command: SetEpoch, settlement: Settlement) -> None:
        """Take over what waits in the shadow, then let the output accept the new owner.

        1. While both still publish: what the output holds and its server may have forgotten.
        2. The shadow takes no more: who publishes there waits, and finds the output later.
        3. The output refuses the old owner; it accepts what is taken over, and nothing else.
        4. Amended results, then the new owner's in the order of the shadow.
        5. The output accepts the new owner.
        """
        job, epoch = command.job, command.epoch
        accepted = await self.streams.accepted_epoch(command.output.stream)
        check_epoch(f"the output of {job}", epoch, accepted)
        if accepted != epoch:
            info = await self._info(job)
            overlaps: dict[str, str] | None = None
            if info is None:
                await self.streams.accept(job, settlement.interim, command.output)
            else:
                settlement = _of_the_owner(settlement, info)
                stored = await self._stored_ids(command, settlement, info)
                info = await self._frozen(info, job)
                await self.streams.accept(job, settlement.interim, command.output)
                await stored.read()
                overlaps = await self._overlaps(command.output, info)
                await self._take_over(command, settlement, stored)
                await self._settled(info)
            await self.streams.accept(job, epoch, command.output, overlaps=overlaps)
        await self.drop(job, through=epoch)

    async def _frozen(self, shadow: StreamInfo, job: str) -> StreamInfo:
        closed = [data_plane.closed_shadow_subject(self.site, job)]
        if shadow.config.subjects == closed:
            return shadow
        return await self.jetstream.update_stream(shadow.config, subjects=closed)

    async def _settled(self, shadow: StreamInfo) -> None:
        """Note that the output has everything, before anybody may publish there who thinks so."""
        metadata = {k: v for k, v in (shadow.config.metadata or {}).items() if k != data_plane.UNSETTLED}
        await self.jetstream.update_stream(shadow.config, metadata=metadata)

    async def _take_over(self, command: SetEpoch, settlement: Settlement, stored: StoredIds) -> None:
        """Publish what waits under the interim epoch, page by page, but what the output holds."""
        job, output, interim = command.job, command.output.stream, settlement.interim
        publisher = Publisher(always(self.streams.connection), patience_s=PATIENCE_S)
        total = new = 0
        for kind, stream, after in (
            # Of rejected events all: which window an event would have been in does not matter to them.
            (data_plane.rejected_subject, data_plane.rejected_stream(output), 0),
            (data_plane.sink_subject, output, settlement.after_position),
        ):
            subject, waits = kind(self.site, job, interim), kind(self.site, job, settlement.epoch)
            if stream == output:
                new += await self._amend(publisher, command, settlement, stored)
            async for messages in pages_after(
                *self._shadow(job), after, subject=data_plane.shadow_subject(waits)
            ):
                fresh = [message for message in messages if message.identity not in stored]
                total += len(messages)
                new += await self._store(publisher, fresh, subject, stream)
        log.info("%s: %d messages taken over from the shadow, %d were new", job, total, new)

    async def _amend(
        self, publisher: Publisher, command: SetEpoch, settlement: Settlement, stored: StoredIds
    ) -> int:
        """Publish the amended results, as if they were of the micro-batch that comes behind them; but those
        that an earlier try has stored."""
        job, output = command.job, command.output.stream
        life = await stream_life(self.streams.connection, self.site, output)
        subject = data_plane.sink_subject(self.site, job, settlement.interim)
        amended = [
            Outgoing(subject, identity, result.body.encode())
            for result in settlement.amended
            if (identity := data_plane.stored_id(life, result.identity)) not in stored
        ]
        if not amended:
            return 0
        behind = data_plane.sink_subject(self.site, job, settlement.epoch)
        label = await self._label(job, behind, settlement.after_position) or data_plane.NO_BATCH
        return await publisher.publish(amended, site=self.site, stream=output, batch=label)

    async def _label(self, job: str, sink: str, after: int) -> str | None:
        """Label of the first message of one owner behind a position of the shadow; None if there is none."""
        first = await page(*self._shadow(job), after + 1, 1, subject=data_plane.shadow_subject(sink))
        return data_plane.batch_of(first[0].headers) if first else None

    def _shadow(self, job: str) -> tuple[Client, str, str]:
        """Where to read a shadow."""
        return self.streams.connection, self.site, data_plane.shadow_stream(job)

    async def _stored_ids(self, command: SetEpoch, settlement: Settlement, shadow: StreamInfo) -> StoredIds:
        """Ids that the output holds and may have forgotten as ids.

        What was stored before the shadow was opened may be of any age: who goes on from a checkpoint repeats
        it, however long ago its job stood still, and also what the owner was not yet past that others stored.
        """
        marks = dict(_marks(command.output, shadow))
        age = datetime.now(UTC) - (shadow.created or datetime.now(UTC))
        stored = StoredIds(self.streams.connection, self.site, marks if age >= REMEMBERED else {})
        await stored.read()
        for kind, stream in zip((data_plane.sink_subject, data_plane.rejected_subject), marks, strict=True):
            await stored.read_overlap(stream, await self.streams.overlap_of(stream))
            label = await self._label(command.job, kind(self.site, command.job, settlement.epoch), 0)
            if label is not None:
                await stored.read_back(stream, marks[stream], label)
        return stored

    async def _overlaps(self, output: ResolvedOutput, shadow: StreamInfo) -> dict[str, str]:
        """Stream → what was stored in it since the shadow was opened, as `data_plane.OVERLAP` says it."""
        connection = self.streams.connection
        return {
            stream: await self.streams.widened_overlap(
                stream, f"{after}-{await last_serial(connection, self.site, stream)}"
            )
            for stream, after in _marks(output, shadow)
        }

    async def _store(
        self, publisher: Publisher, messages: list[StoredMessage], subject: str, stream: str
    ) -> int:
        """Publish again, micro-batch by micro-batch: each message keeps the label of its own."""
        stored = 0
        by_batch = itertools.groupby(messages, key=lambda m: data_plane.batch_of(m.headers))
        for label, group in by_batch:
            outgoing = [Outgoing(subject, message.identity, message.body) for message in group]
            stored += await publisher.publish(outgoing, site=self.site, stream=stream, batch=label)
        return stored


def _marks(output: ResolvedOutput, shadow: StreamInfo) -> list[tuple[str, int]]:
    """Output streams, with their last serial number when the shadow was opened."""
    metadata = shadow.config.metadata or {}
    return [
        (output.stream, int(metadata.get(data_plane.OUTPUT_SERIAL, "0"))),
        (data_plane.rejected_stream(output.stream), int(metadata.get(data_plane.REJECTED_SERIAL, "0"))),
    ]


def _of_the_owner(settlement: Settlement, shadow: StreamInfo) -> Settlement:
    """What is to be settled. In another operation's shadow what waits is the owner's, and comes first."""
    diverted = _unsettled(shadow)
    if settlement.epoch in _epochs(shadow) or diverted is None:
        return settlement
    return Settlement(epoch=diverted, interim=settlement.interim)


def _operation(shadow: StreamInfo) -> str:
    return (shadow.config.metadata or {}).get(data_plane.OPERATION, "")


def _unsettled(shadow: StreamInfo) -> int | None:
    """The epoch of the owner whose results only the shadow has; None if the output has them all."""
    epoch = (shadow.config.metadata or {}).get(data_plane.UNSETTLED)
    return None if epoch is None else int(epoch)


def _epochs(shadow: StreamInfo) -> list[int]:
    """Whose results it keeps, in ascending order."""
    return [int(epoch) for epoch in (shadow.config.metadata or {}).get(data_plane.EPOCHS, "0").split(",")]
