"""A job that runs at two sites, for tests of the monitor: real streams, agents that report preset values."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from running.mesh import Mesh
from running.publishing import always
from running.waiting import WITHIN_S
from towpath.bus import Bus
from towpath.contracts.commands import ConsistencyCheck
from towpath.contracts.data_plane import (
    output_stream,
    rejected_stream,
    rejected_subject,
    shadow_stream,
    shadow_subject,
    sink_subject,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobState, JobStatus, ResolvedInput, ResolvedOutput
from towpath.contracts.migration import AmendedResult, OpenShadow
from towpath.contracts.monitor import AwaitConsistency, Consistent, StartMonitor, StopMonitor, Watch
from towpath.contracts.site import Retention
from towpath.contracts.site_commands import Recomputed, RecomputeWindow, ReportProgress
from towpath.mesh.home import Home
from towpath.monitor.app import run
from towpath.monitor.settings import MonitorSettings
from towpath.streams.pages import StoredMessage, read_after
from towpath.streams.publisher import Outgoing, Publisher, stream_life
from towpath.streams.shadows import Shadows
from towpath.streams.streams import SiteStreams

JOB, SITE, INPUT = "counts", "jfk", "jfk/site/departures"
OLD, INTERIM, NEW = 2, 3, 4
OWNERS = {OLD: "jfk", NEW: "lga"}
OUTPUT = ResolvedOutput(
    site=SITE,
    stream=output_stream(JOB),
    topic="departures/counts",
    rejected_topic="departures/counts/rejected",
)


def result(epoch: int, serial: int, **more: Any) -> bytes:
    head = {
        "job": JOB,
        "site": OWNERS[epoch],
        "epoch": epoch,
        "serial": serial,
        "stored_at": "2026-01-01T00:00:00Z",
    }
    return json.dumps({**head, "values": {}, **more}).encode()


@dataclass
class MonitoredJob:
    """The output site's streams, both runs, and the coordinator's part. One connection may serve them all."""

    bus: Bus
    """The agent of the source, which is the output site."""
    target: Bus
    """The agent of the target."""
    engines: dict[int, Bus]
    """Epoch → the engine that publishes under it."""
    coordinator: Bus
    serials: dict[str, dict[str, int]] = field(default_factory=lambda: {"jfk": {}, "lga": {}})
    """Site → what its agent reports. An agent without an entry is silent."""
    events: int = 10
    """Events that each run has processed since its query started."""
    asked: int = 0
    """Number of reports that the target's agent has given."""
    recomputed: list[tuple[int, int]] = field(default_factory=list)
    refusals: list[ErrorCode] = field(default_factory=list)
    """Answers of the target's agent to the next commands to compute again."""
    life: str = ""
    output_serial: int = 0
    check: ConsistencyCheck = ConsistencyCheck.IDENTITY
    factor: int = 0
    trigger_s: float = 0.1

    @property
    def streams(self) -> SiteStreams:
        return SiteStreams(self.bus.connection, SITE, Retention())

    async def prepare(self) -> None:
        """Let the source own the output and both agents answer."""
        await self.streams.outputs.set_epoch(JOB, OLD, OUTPUT, owner=OWNERS[OLD])
        self.life = await stream_life(self.bus.connection, SITE, OUTPUT.stream)
        for site, agent in (("jfk", self.bus), ("lga", self.target)):
            await agent.serve(ReportProgress, self._report, site=site)
            await agent.serve(RecomputeWindow, self._recompute, site=site)

    async def _report(self, command: ReportProgress) -> JobStatus:
        if command.site not in self.serials:
            await asyncio.sleep(3600)
        epoch = OLD if command.site == "jfk" else NEW
        self.asked += command.site == "lga"
        return JobStatus(
            job=JOB,
            epoch=epoch,
            state=JobState.RUNNING,
            serials=dict(self.serials[command.site]),
            events=self.events,
        )

    async def was_asked(self) -> bool:
        """True if the monitor has asked several times, over more than one trigger interval."""
        return self.asked > 5

    async def _recompute(self, command: RecomputeWindow) -> Recomputed:
        if command.site != "lga":
            raise TowpathError(ErrorCode.FAILED, "only the target recomputes")
        self.recomputed.append((command.after, command.through))
        if self.refusals:
            raise TowpathError(self.refusals.pop(), "the engine does not answer")
        bounds = {"after": command.after, "through": command.through}
        identity = f"{JOB}/processed/{command.after}/{command.through}"
        return Recomputed(
            results=[AmendedResult(identity=identity, body=result(NEW, command.through, **bounds).decode())]
        )

    async def open_shadow(self) -> None:
        diverted = self.check is not ConsistencyCheck.IDENTITY
        owners = OWNERS if diverted else {NEW: OWNERS[NEW]}
        self.output_serial = await Shadows(self.streams).open(
            OpenShadow(
                site=SITE,
                operation="m1",
                job=JOB,
                epochs=list(owners),
                owners=owners,
                interim=INTERIM if diverted else None,
                output=OUTPUT,
            )
        )

    async def publish(self, epoch: int, *messages: tuple[str, bytes], batch: str = "1.0") -> None:
        """Publish as the owner of `epoch` does, into the output or the shadow."""
        outgoing = [
            Outgoing(sink_subject(SITE, OWNERS[epoch], JOB, epoch), f"{self.life}/{identity}", body)
            for identity, body in messages
        ]
        await Publisher(always(self.engines[epoch].connection)).publish(
            outgoing, site=SITE, stream=OUTPUT.stream, batch=batch
        )

    async def reject(self, epoch: int, *serials: int) -> None:
        outgoing = [
            Outgoing(
                rejected_subject(SITE, OWNERS[epoch], JOB, epoch), f"{self.life}/{JOB}/rejected/0/{n}", b"{}"
            )
            for n in serials
        ]
        await Publisher(always(self.engines[epoch].connection)).publish(
            outgoing, site=SITE, stream=rejected_stream(OUTPUT.stream), batch="1.0"
        )

    async def publish_aside(self, epoch: int, message: tuple[str, bytes]) -> None:
        """Publish straight into the shadow, as a run does that has not yet heard of a change."""
        identity, body = message
        await (
            self.engines[epoch]
            .connection.jetstream()
            .publish(
                shadow_subject(sink_subject(SITE, OWNERS[epoch], JOB, epoch)),
                body,
                headers={"Nats-Msg-Id": f"{self.life}/{identity}"},
            )
        )

    async def forget_ids(self) -> None:
        """Let the output's streams forget which ids they have seen, as they do after minutes."""
        for stream in (OUTPUT.stream, rejected_stream(OUTPUT.stream)):
            config = (await self.streams.jetstream.stream_info(stream)).config
            await self.streams.jetstream.update_stream(config, duplicate_window=0.1)
        await asyncio.sleep(0.3)

    async def rejected_are(self, identities: list[str]) -> bool:
        stored = await read_after(self.bus.connection, SITE, rejected_stream(OUTPUT.stream), 0)
        return [message.identity for message in stored] == identities

    @property
    def watch(self) -> Watch:
        parallel = self.check is not ConsistencyCheck.IDENTITY
        return Watch(
            job=JOB,
            source="jfk",
            target="lga",
            source_epoch=OLD,
            target_epoch=NEW,
            interim=INTERIM if parallel else None,
            inputs=[ResolvedInput(name=INPUT, site="jfk", stream="IN", subject=None, from_device=True)],
            output=OUTPUT,
            output_serial=self.output_serial,
            check=self.check,
            factor=self.factor,
            trigger_s=self.trigger_s,
        )

    async def start(self) -> None:
        await self.coordinator.request(StartMonitor(operation="m1", watch=self.watch), deadline_s=WITHIN_S)

    async def consistency(self, within_s: float = WITHIN_S, *, identifier: str = "a1") -> Consistent:
        command = AwaitConsistency(id=identifier, operation="m1", watch=self.watch, within_s=within_s)
        return await self.coordinator.request(command, deadline_s=within_s + WITHIN_S, attempt_s=1)

    async def stop(self) -> str:
        return (await self.coordinator.request(StopMonitor(operation="m1"), deadline_s=WITHIN_S)).note

    async def output(self) -> list[StoredMessage]:
        return await read_after(self.bus.connection, SITE, OUTPUT.stream, 0)

    async def identities(self) -> list[str]:
        """Return the message ids in the output, in order, without the stream's prefix."""
        return [message.identity.partition("/")[2] for message in await self.output()]

    async def has(self, wanted: Sequence[str]) -> bool:
        return await self.identities() == list(wanted)

    async def shadow(self) -> list[StoredMessage]:
        return await read_after(self.bus.connection, SITE, shadow_stream(JOB), 0)


@asynccontextmanager
async def running_monitor(url: str) -> AsyncIterator[asyncio.Task[None]]:
    """Run a monitor on the hub at `url`. It must end by itself."""
    stop = asyncio.Event()
    task = asyncio.create_task(run(MonitorSettings(Home(Path()), url, "", ""), stop))
    try:
        yield task
    finally:
        stop.set()
        await asyncio.wait_for(task, WITHIN_S)


@asynccontextmanager
async def monitored_job(url: str) -> AsyncIterator[MonitoredJob]:
    async with await Bus.connect(url, "", "", name="test", within_s=WITHIN_S) as bus:
        job = MonitoredJob(bus, target=bus, engines={OLD: bus, NEW: bus}, coordinator=bus)
        await job.prepare()
        yield job


@asynccontextmanager
async def job_on_mesh(mesh: Mesh) -> AsyncIterator[MonitoredJob]:
    """Set the job up with every party logged in where it belongs, under its own name."""
    state = mesh.state
    jfk, lga = state.sites["jfk"], state.sites["lga"]
    logins = [
        (jfk.nats_url, jfk.login("agent")),
        (lga.nats_url, lga.agent),
        (jfk.nats_url, jfk.login("engine")),
        (lga.nats_url, lga.engine),
        (state.hub_url, state.login("coordinator")),
    ]
    async with AsyncExitStack() as stack:
        buses: list[Bus] = []
        for url, login in logins:
            connecting = Bus.connect(url, login.user, login.password, name=login.user, within_s=WITHIN_S)
            buses.append(await stack.enter_async_context(await connecting))
        await stack.enter_async_context(mesh.gate(SITE))
        source, target, old, new, coordinator = buses
        job = MonitoredJob(source, target=target, engines={OLD: old, NEW: new}, coordinator=coordinator)
        await job.prepare()
        yield job
