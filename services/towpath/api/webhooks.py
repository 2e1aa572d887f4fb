"""POST the results of jobs to the addresses that their pipelines name: in order, each at least once.

A durable consumer of the output stream keeps the place, and counts how often the next result was handed out.
So a restart of this service loses nothing. A call to the site's JetStream moves the place on: any site could
send an acknowledgement, see `towpath.mesh.permissions`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
from dataclasses import dataclass
from datetime import datetime

import aiohttp
import nats.errors
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from towpath.api.event_log import KeptEventReader, span
from towpath.bus import Bus
from towpath.contracts.data_plane import WEBHOOK_CONSUMER, api_prefix, output_id, output_stream
from towpath.contracts.errors import TowpathError
from towpath.contracts.pipeline import PipelineView
from towpath.contracts.pipeline_commands import ListPipelines, ResultUndelivered
from towpath.streams.pages import last_serial, serial_before
from towpath.tasks import end

log = logging.getLogger(__name__)

LOOK_S = 60.0
"""Between two looks at all pipelines, if no event tells of a change."""

AGAIN_S = 2.0
"""Pause after a failure of the mesh, and before a stream that is not there yet is looked for again."""

ANSWER_S = 10.0
"""Deadline for the address, and for the mesh."""

IDLE_S = 20.0
"""Time that a request for results waits when there are none."""

ACK_WAIT_S = 3 * ANSWER_S
"""The server may hand a result out again after this time, if this service died with it."""

ATTEMPTS = 12
"""Attempts at a result, over about six minutes: a restart of the receiver takes less."""

LONGEST_PAUSE_S = 60.0

UNUSED_S = 7 * 24 * 3600.0
"""The server forgets the place of a webhook that no one serves for so long."""

_FAILURES = (nats.errors.Error, TowpathError, OSError, TimeoutError)


@dataclass(frozen=True)
class Webhook:
    """An address, and the job whose results it gets."""

    job: str
    site: str
    """Where the output stream is."""
    url: str


Serving = dict[Webhook, asyncio.Task[None]]
"""Webhook → the task that serves it."""


async def serve_webhooks(bus: Bus) -> None:
    """Serve the webhooks of all pipelines until cancelled."""
    serving: Serving = {}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_S)) as client:
        try:
            while True:
                with contextlib.suppress(*_FAILURES):
                    await _follow(bus, client, serving)
                await asyncio.sleep(AGAIN_S)
        finally:
            await end(serving.values())


async def _follow(bus: Bus, client: aiohttp.ClientSession, serving: Serving) -> None:
    """Serve what pipelines name now, and what they name after each change. Raises when the hub is away."""
    after = (await span(bus.connection)).last
    reader = KeptEventReader(bus.connection, after=after, subject="pipeline")
    async with contextlib.aclosing(reader):
        while True:
            found = await bus.request(ListPipelines(), deadline_s=ANSWER_S)
            wanted = {each: since for view in found.pipelines for each, since in webhooks_of(view).items()}
            await end([serving.pop(each) for each in serving.keys() - wanted.keys()])
            for each in wanted.keys() - serving.keys():
                delivery = Delivery(bus, client, each, wanted[each])
                serving[each] = asyncio.create_task(delivery.run(), name=f"webhook of {each.job}")
            await reader.page(within_s=LOOK_S)


def webhooks_of(view: PipelineView) -> dict[Webhook, datetime | None]:
    """Return a pipeline's webhooks, each with the time from which it gets results; None: all there are."""
    since = None if view.version == 1 else view.apply.begun_at
    return {
        Webhook(job.name, job.output_site, job.webhook): since
        for job in view.spec.jobs
        if job.webhook is not None
    }


class Delivery:
    """The results of one job on their way to an address."""

    def __init__(
        self, bus: Bus, client: aiohttp.ClientSession, webhook: Webhook, since: datetime | None
    ) -> None:
        self._bus = bus
        self._client = client
        self._webhook = webhook
        self._since = since
        self._done = 0
        """The newest result that needs no further attempt. The place may still be before it."""

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            try:
                await self._deliver()
            except NotFoundError:
                pass  # The job is being started.
            except _FAILURES as error:
                log.warning("the webhook of %s waits: %r", self._webhook.job, error)
            await asyncio.sleep(AGAIN_S)

    async def _deliver(self) -> None:
        stream = output_stream(self._webhook.job)
        jetstream = self._bus.connection.jetstream(domain=self._webhook.site, timeout=ANSWER_S)
        try:
            await jetstream.consumer_info(stream, WEBHOOK_CONSUMER)
        except NotFoundError:
            await self._make_place(jetstream, await self._beginning())
        reading = await jetstream.pull_subscribe_bind(consumer=WEBHOOK_CONSUMER, stream=stream)
        try:
            while True:
                try:
                    [message] = await reading.fetch(1, timeout=IDLE_S)
                except (nats.errors.TimeoutError, TimeoutError):
                    # A place that was deleted looks like one without news.
                    await jetstream.consumer_info(stream, WEBHOOK_CONSUMER)
                else:
                    serial = message.metadata.sequence.stream
                    if serial > self._done:
                        await self._hand_over(message)
                        self._done = serial
                    await self._move_place(jetstream, serial + 1)
        finally:
            with contextlib.suppress(*_FAILURES):
                await reading.unsubscribe()

    async def _beginning(self) -> int:
        """Return the serial number of the first result that the address gets."""
        if self._since is None:
            return 1
        connection, site, stream = self._bus.connection, self._webhook.site, output_stream(self._webhook.job)
        before = await serial_before(connection, site, stream, self._since)
        return 1 + (await last_serial(connection, site, stream) if before is None else before)

    async def _make_place(self, jetstream: JetStreamContext, serial: int) -> None:
        """Make a place at which one result waits for its end: the next may not overtake it.

        It begins at a serial number. One that begins at a time takes no other place that is before it, and
        the clocks of two machines differ.
        """
        self._done = serial - 1
        place = ConsumerConfig(
            name=WEBHOOK_CONSUMER,
            durable_name=WEBHOOK_CONSUMER,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S,
            max_ack_pending=1,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=serial,
            inactive_threshold=UNUSED_S,
        )
        await jetstream.add_consumer(output_stream(self._webhook.job), place)

    async def _hand_over(self, message: Msg) -> None:
        """Send a result until it is taken, or was tried often enough. A restart counts as an attempt."""
        attempts = message.metadata.num_delivered
        while (problem := await self._post(message)) is not None and attempts < ATTEMPTS:
            await asyncio.sleep(pause_s(attempts))
            attempts += 1
        if problem is None:
            return
        serial = message.metadata.sequence.stream
        log.warning("result %d of %s is not taken: %s", serial, self._webhook.job, problem)
        await self._bus.publish(
            ResultUndelivered(job=self._webhook.job, serial=serial, attempts=attempts, error=problem)
        )

    async def _move_place(self, jetstream: JetStreamContext, serial: int) -> None:
        """Move the place to a result. Raises one of `_FAILURES`, and then the one before comes again."""
        stream = output_stream(self._webhook.job)
        call = f"{api_prefix(self._webhook.site)}.CONSUMER.RESET.{stream}.{WEBHOOK_CONSUMER}"
        answer = await self._bus.connection.request(
            call, json.dumps({"seq": serial}).encode(), timeout=ANSWER_S
        )
        if "error" in json.loads(answer.data):  # An earlier version has made it, to begin at a time.
            await jetstream.delete_consumer(stream, WEBHOOK_CONSUMER)
            await self._make_place(jetstream, serial)

    async def _post(self, message: Msg) -> str | None:
        """Send a result. Return why it was not taken; None if it was."""
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": idempotency_key(output_id(message.headers or {})),
        }
        try:
            request = self._client.post(
                self._webhook.url, data=message.data, headers=headers, allow_redirects=False
            )
            async with request as response:
                return None if 200 <= response.status < 300 else f"{response.status} {response.reason}"
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            return f"{type(error).__name__}: {error}"[:200]


def pause_s(attempts: int) -> float:
    """Return the pause after so many attempts, which doubles up to a minute."""
    return min(2.0 ** (attempts - 1), LONGEST_PAUSE_S)


def idempotency_key(message_id: str) -> str:
    """Return the key of a result: the same at each attempt, and of letters that every receiver takes."""
    return hashlib.sha256(message_id.encode()).hexdigest()[:32]
