"""A query text that runs on the stage: its answers are heard, and what its queries could see is read back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from nats.errors import Error as NatsError

from towpath.checker.collector import ResultCollector
from towpath.checker.identity import utc
from towpath.checker.observation import ReceivedMessage
from towpath.contracts.commands import JobView
from towpath.contracts.data_plane import STORED_AT_HEADER
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ResolvedInput
from towpath.contracts.pipeline_commands import DeletePipeline
from towpath.lab.demonstration.fog.pipelines import apply
from towpath.lab.demonstration.pipeline import CLOUD, SITES
from towpath.lab.harness.answers import answer_identity, micros, moment_of
from towpath.lab.harness.observer import ATTEMPT_S, subscriber
from towpath.lab.harness.stage import Stage
from towpath.lab.scenarios.restoration import APPLY_S
from towpath.queries.compilation import Asked, Compiled, compiled
from towpath.queries.reference import Event
from towpath.streams.pages import last_serial, pages_after

TOGETHER_S = 2.0
"""Seconds for the answers of one micro-batch to come."""

TRIGGER_S = 1.0
"""Between micro-batches of events. The default follows from the length of panes, and a day of them passes in
seconds here."""

READ_WITHIN_S = 180.0
LOOK_EVERY_S = 0.5


@dataclass
class RunningText:
    """A text, its jobs, and the answers that have come."""

    stage: Stage
    compiled: Compiled
    collector: ResultCollector
    views: Mapping[str, JobView]
    """Job → what it was when it began."""

    @property
    def name(self) -> str:
        """Of the text, and of the job that answers."""
        return self.compiled.asked.name

    @property
    def inputs(self) -> list[ResolvedInput]:
        """Where the events are."""
        return [entry for name, view in self.views.items() if name != self.name for entry in view.inputs]

    async def events(self) -> list[Event]:
        """Return all events since the text began to run, as their sites have stored them."""
        return [event for entry in self.inputs for event in await self._stored(entry)]

    async def _stored(self, entry: ResolvedInput) -> list[Event]:
        topic = entry.name.partition("/")[2]
        found: list[Event] = []
        async for messages in pages_after(
            self.stage.bus.connection,
            entry.site,
            entry.stream,
            entry.after_serial or 0,
            subject=entry.subject,
        ):
            found += [
                Event(
                    entry.site,
                    topic,
                    message.serial,
                    micros(utc(message.headers[STORED_AT_HEADER])),
                    json.loads(message.body),
                )
                for message in messages
            ]
        return found

    async def answers_until(self, until: datetime) -> list[ReceivedMessage]:
        """Return all answers up to a moment, once there is one of a later moment.

        Raises `TowpathError` (deadline) if none comes.
        """
        seen, end = self.collector.observations, time.monotonic() + READ_WITHIN_S
        while not any(moment_of(each) > until for each in seen):
            if time.monotonic() > end:
                raise TowpathError(
                    ErrorCode.DEADLINE, f"{self.name} did not answer beyond {until} in {READ_WITHIN_S:g} s"
                )
            await asyncio.sleep(LOOK_EVERY_S)
        await asyncio.sleep(TOGETHER_S)
        return [each for each in seen if moment_of(each) <= until]


async def until_read(stage: Stage, names: Collection[str]) -> None:
    """Wait until these jobs have read their inputs to the end. Raises `TowpathError` (deadline)."""

    async def behind() -> list[str]:
        views = await _views(stage, names)
        return [
            name
            for name, view in views.items()
            for entry in view.inputs
            if not view.status or view.status.serials.get(entry.name, 0) < await _newest(stage, entry)
        ]

    await _until_none(behind)


async def until_counted(stage: Stage, counts: Mapping[str, int]) -> None:
    """Wait until jobs have read as many events since they began. Raises `TowpathError` (deadline).

    It asks the coordinator only, so nothing crosses the links because of it.
    """

    async def behind() -> list[str]:
        views = await _views(stage, counts)
        return [name for name, view in views.items() if not view.status or view.status.events < counts[name]]

    await _until_none(behind)


async def _until_none(behind: Callable[[], Awaitable[list[str]]]) -> None:
    end = time.monotonic() + READ_WITHIN_S
    while left := await behind():
        if time.monotonic() > end:
            raise TowpathError(
                ErrorCode.DEADLINE, f"after {READ_WITHIN_S:g} s events wait for {', '.join(left)}"
            )
        await asyncio.sleep(LOOK_EVERY_S)


async def _views(stage: Stage, names: Collection[str]) -> dict[str, JobView]:
    return {view.spec.name: view for view in await stage.ask_jobs() if view.spec.name in names}


async def _newest(stage: Stage, entry: ResolvedInput) -> int:
    try:
        return await last_serial(stage.bus.connection, entry.site, entry.stream)
    except (TimeoutError, NatsError) as error:
        raise TowpathError(ErrorCode.UNREACHABLE, f"cannot look at the input: {error}") from error


@asynccontextmanager
async def running_text(
    stage: Stage, name: str, text: str, filled: Mapping[str, str] | None = None
) -> AsyncIterator[RunningText]:
    """Run a text that asks at the cloud, and remove it with its answers in the end.

    Raises `TowpathError` if a command is refused or fails.
    """
    found = compiled(Asked(name, CLOUD, text, filled or {}, SITES, trigger_s=TRIGGER_S))
    topics = [found.asked.topic]
    async with subscriber(stage.mesh, CLOUD, topics, f"checker-{name}", answer_identity) as collector:
        await apply(stage.bus, found.pipeline)
        views = await _views(stage, {job.name for job in found.pipeline.jobs})
        yield RunningText(stage, found, collector, views)
    # It stays after an error, because then the mesh is stopped anyway, or kept to look at.
    command = DeletePipeline(pipeline=name, now=True, purge=True)
    await stage.bus.request(command, deadline_s=APPLY_S, attempt_s=ATTEMPT_S)
