"""Turn the journals of ended migrations into samples of their costs.

The hub stores this reader's position among the events. So migrations that end while no collector runs are
read by the next one. An event is acknowledged when its samples are stored. It may therefore come twice,
with the same samples.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3

import nats.errors
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from pydantic import ValidationError

from towpath.bus import Bus
from towpath.bus.authenticity import ForeignSubject, authentic
from towpath.collector.own_samples import OwnSamples
from towpath.contracts.commands import OperationKind, OperationState, OperationView, ShowOperation
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import EVENTS_STREAM, OperationEnded
from towpath.contracts.metrics import Sample
from towpath.protocols.attempts import attempts
from towpath.tasks import check_cancelled
from towpath.telemetry.intervals import samples_of

log = logging.getLogger(__name__)

READER = "collector-migrations"
"""Name of this reader's position at the hub."""

WAIT_S = 5.0
"""Time to wait for the next event before asking again."""

AGAIN_S = 1.0
"""Pause when the hub, the stream or the coordinator is away."""

OPERATION_S = 10.0
"""Deadline for the coordinator to show a migration."""


class MigrationSamples:
    """Turns ended migrations into samples."""

    def __init__(self, bus: Bus, own: OwnSamples) -> None:
        self._bus = bus
        self._own = own

    async def follow(self) -> None:
        """Read every migration that ends, until cancelled."""
        why = ""
        while True:
            check_cancelled()
            try:
                await self._read(await self._place())
            except (nats.errors.Error, sqlite3.Error, TimeoutError, OSError, TowpathError) as error:
                if repr(error) != why:
                    why = repr(error)
                    log.info("cannot read ended migrations now: %s", why)
            await asyncio.sleep(AGAIN_S)

    async def _place(self) -> JetStreamContext.PullSubscription:
        jetstream = self._bus.connection.jetstream()
        config = ConsumerConfig(
            durable_name=READER,
            filter_subject=OperationEnded.wildcard(),
            ack_policy=AckPolicy.EXPLICIT,
            deliver_policy=DeliverPolicy.ALL,
            ack_wait=2 * OPERATION_S,
        )
        await jetstream.add_consumer(EVENTS_STREAM, config)
        return await jetstream.pull_subscribe_bind(consumer=READER, stream=EVENTS_STREAM)

    async def _read(self, events: JetStreamContext.PullSubscription) -> None:
        try:
            while True:
                check_cancelled()
                try:
                    [message] = await events.fetch(1, timeout=WAIT_S)
                except (nats.errors.TimeoutError, TimeoutError):
                    continue
                await self._take(message)
                await message.ack()
        finally:
            await events.unsubscribe()

    async def _take(self, message: Msg) -> None:
        try:
            ended = authentic(OperationEnded, message.subject, message.data)
        except (ValidationError, ForeignSubject) as error:
            log.warning("unreadable event on %s: %s", message.subject, error)
            return
        if ended.kind is OperationKind.MIGRATE:
            view = await self._shown(ended.operation)
            try:
                samples = samples_of_end(ended, view) + ([] if view is None else samples_of_steps(view))
            except (ValueError, ArithmeticError) as error:
                log.warning("no samples of %s: %s", ended.operation, error)  # A site told absurd figures.
                return
            await self._own.add(samples)

    async def _shown(self, operation: str) -> OperationView | None:
        """Return the migration. None if the coordinator has forgotten it. Raises `TowpathError`."""
        try:
            async with asyncio.timeout(OPERATION_S + AGAIN_S):
                return await self._bus.request(ShowOperation(operation=operation), deadline_s=OPERATION_S)
        except TowpathError as error:
            if error.detail.code is ErrorCode.UNKNOWN_MIGRATION:
                return None
            raise


def samples_of_end(ended: OperationEnded, view: OperationView | None) -> list[Sample]:
    """Return samples of a migration's outcome and total costs, at the moment of its end.

    For a migration that did not complete, the journal in `view` tells its costs.
    """
    values: dict[str, float | None] = {
        "migration.completed": float(ended.state is OperationState.COMPLETED),
    }
    if ended.figures is not None:
        values |= {
            "migration.duration": ended.figures.total_s,
            "migration.downtime": ended.figures.downtime_s,
            "migration.state": ended.figures.state_bytes,
        }
    elif view is not None and view.ended_at is not None:
        values |= {
            "migration.duration": (view.ended_at - view.begun_at).total_seconds(),
            "migration.state": _sent_bytes(view),
        }
    known = {metric: value for metric, value in values.items() if value is not None}
    return samples_of(f"migration:{ended.operation}", ended.at.timestamp(), known)


def _sent_bytes(view: OperationView) -> float:
    """Return the bytes of state that the sending step confirmed. 0 if it confirmed none."""
    confirmed = (entry.detail for entry in reversed(view.journal) if entry.phase == "confirmed")
    return float(next((detail["state_bytes"] for detail in confirmed if "state_bytes" in detail), 0))


def samples_of_steps(view: OperationView) -> list[Sample]:
    """Return the duration of each step at the moment of its end. A repeated step has several samples."""
    return [
        Sample(
            entity=f"migration:{view.operation}/{attempt.first.step}",
            metric="migration.step.duration",
            at=attempt.last.at.timestamp(),
            value=attempt.took_s,
        )
        for attempt in attempts(view.journal)
        if attempt.last is not None and attempt.took_s is not None and not attempt.undoing
    ]
