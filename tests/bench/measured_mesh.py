"""A mesh in a temporary directory, and the questions of benchmarks to it."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from load import LoadSpec
from natsrpy.js import JetStreamMessage
from reports import TOPIC

from towpath.atomic_write import write_private_file
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.cli.starting import wait_until_up
from towpath.contracts.commands import (
    ConsistencyCheck,
    DeployJob,
    ListJobs,
    MigrateJob,
    OperationView,
    RemoveJob,
    ShowOperation,
    StrategyName,
)
from towpath.contracts.data_plane import IN_STREAM, api_prefix, output_stream
from towpath.contracts.job import Input, JobSpec, JobStatus, Output
from towpath.contracts.operators import Operator
from towpath.contracts.site import FaultSettings, MeshSpec, SiteSpec
from towpath.contracts.storage import StorageSpec
from towpath.contracts.tls import TlsSpec
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.streams.log_reader import Access, LogReader

T = TypeVar("T")

UP_S = 180.0
COMMAND_S = 180.0
ATTEMPT_S = 30.0
LOOK_S = 10.0
POLL_S = 0.1


class NotInTime(RuntimeError):
    """A condition did not come true within its deadline."""


@contextmanager
def temporary_home() -> Iterator[Home]:
    """Yield a home whose mesh is brought down and deleted in the end, even after failures. Blocks.

    Neither Ctrl-C nor SIGTERM interrupts that. For the main thread only.
    """
    home = Home(Path(tempfile.mkdtemp(prefix="towpath-bench-")))
    try:
        yield home
    finally:
        signals = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, signal.SIG_IGN) for number in signals]
        lifecycle.down(home)
        shutil.rmtree(home.root, ignore_errors=True)
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


@dataclass
class MeasuredMesh:
    """A running mesh."""

    home: Home
    state: MeshState
    bus: Bus
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def fresh_name(self, prefix: str) -> str:
        """Return a name that no job or client had before."""
        return f"{prefix}-{next(self._numbers)}"

    def load_spec(self, site: str, **options: object) -> LoadSpec:
        """Return a load into a site, as its device user; `options` are fields of `LoadSpec`."""
        access = self.state.site(site)
        return LoadSpec(
            host=access.mqtt_host,
            port=access.mqtt_port,
            user=access.device.user,
            password=access.device.password,
            client_id=self.fresh_name("bench"),
            ca_file=access.mqtt_authority,
            **options,  # type: ignore[arg-type]
        )

    async def job(
        self,
        prefix: str,
        site: str,
        operator: Operator,
        *,
        after: int,
        trigger_s: float,
        max_events_per_batch: int | None = None,
        reads: JobSpec | None = None,
    ) -> JobSpec:
        """Deploy a job that reads the reports at `site` after a serial number. Raises `TowpathError`.

        `reads`: it reads the results of this job instead.
        """
        name = self.fresh_name(prefix)
        topic = TOPIC if reads is None else reads.output.topic
        spec = JobSpec(
            name=name,
            site=site,
            inputs=[Input(site=site, topic=topic, start=after)],
            output=Output(topic=f"bench/{name}"),
            operator=operator,
            trigger_s=trigger_s,
            max_events_per_batch=max_events_per_batch,
        )
        await self.bus.request(DeployJob(spec=spec), deadline_s=COMMAND_S, attempt_s=ATTEMPT_S)
        return spec

    async def remove(self, spec: JobSpec) -> None:
        """Remove a job with its results. Raises `TowpathError`."""
        command = RemoveJob(job=spec.name, purge=True)
        await self.bus.request(command, deadline_s=COMMAND_S, attempt_s=ATTEMPT_S)

    async def migrate(
        self,
        spec: JobSpec,
        to: str,
        strategy: StrategyName = StrategyName.GENERAL,
        *,
        check: ConsistencyCheck = ConsistencyCheck.SERIALS,
        factor: int | None = None,
        within_s: float = COMMAND_S,
    ) -> OperationView:
        """Move a job. The operation's state shows whether that succeeded.

        Raises `TowpathError` if the mesh refuses, `NotInTime` if the operation does not end.
        """
        command = MigrateJob(job=spec.name, to=to, strategy=strategy, check=check, factor=factor, wait=False)
        answer = await self.bus.request(command, deadline_s=COMMAND_S, attempt_s=ATTEMPT_S)
        view: OperationView | None = None

        async def ended() -> bool:
            nonlocal view
            # A new command each time: a repeated one gets its first answer.
            question = ShowOperation(operation=answer.operation)
            view = await self.bus.request(question, deadline_s=LOOK_S)
            return view.ended_at is not None

        await until(ended, within_s, f"the end of migration {answer.operation}")
        assert view is not None
        return view

    async def status(self, spec: JobSpec) -> JobStatus | None:
        """Return a job's status by its site's newest heartbeat."""
        jobs = (await self.bus.request(ListJobs(), deadline_s=LOOK_S)).jobs
        return next((view.status for view in jobs if view.spec.name == spec.name), None)

    async def counted(self, spec: JobSpec, results: int, seconds: float) -> bool:
        """True if a job's output holds `results` results in time."""

        async def complete() -> bool:
            return await self.results(spec) >= results

        return await within(complete, seconds)

    async def processed(self, spec: JobSpec) -> int:
        """Return the newest serial number that a job has processed and committed; 0 before the first."""
        status = await self.status(spec)
        return 0 if status is None else max(status.serials.values(), default=0)

    async def stored(self, site: str, stream: str) -> tuple[int, int]:
        """Return the number of messages in a stream, and its last serial number."""
        subject = f"{api_prefix(site)}.STREAM.INFO.{stream}"
        answer = await self.bus.connection.request(subject, b"", timeout=LOOK_S)
        state = json.loads(answer.data)["state"]
        return state["messages"], state["last_seq"]

    async def last_serial(self, site: str) -> int:
        """Return the serial number of a site's newest event."""
        return (await self.stored(site, IN_STREAM))[1]

    async def results(self, spec: JobSpec) -> int:
        """Return the number of results in a job's output."""
        return (await self.stored(spec.output_site, output_stream(spec.name)))[0]

    async def read(
        self, site: str, stream: str, after: int, through: int, take: Callable[[list[JetStreamMessage]], T]
    ) -> list[T]:
        """Apply `take` to each page of a stream, read in a thread with the engine's credentials."""
        engine = self.state.site(site).login("engine")
        file = self.home.root / f"bench-{site}.json"
        write_private_file(file, json.dumps({"user": engine.user, "password": engine.password}))
        access = Access(self.state.site(site).nats_url, str(file))

        def work() -> list[T]:
            return [take(page) for page in LogReader(access).read(stream, after, through)]

        return await asyncio.to_thread(work)


@asynccontextmanager
async def mesh_of(
    home: Home,
    sites: list[SiteSpec],
    say: Callable[[str], None],
    *,
    emulate_links: bool = False,
    storage: StorageSpec | None = None,
    is_encrypted: bool | None = None,
) -> AsyncIterator[MeasuredMesh]:
    """Bring a mesh up, with fault rules allowed, as when figures were first measured.

    The caller who made the home brings it down. Raises `TowpathError`.
    """
    spec = MeshSpec(
        sites=sites,
        emulate_links=emulate_links,
        faults=FaultSettings(enabled=True),
        storage=storage or StorageSpec(),
        tls=TlsSpec(enabled=is_encrypted),
    )
    state = await asyncio.to_thread(lifecycle.up, home, spec)
    await wait_until_up(home, [site.name for site in sites], UP_S, lambda text: None)
    say(f"up: {', '.join(site.name for site in sites)}")
    async with open_bus(home) as bus:
        yield MeasuredMesh(home, state, bus)


async def within(condition: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """True if a condition comes true in time."""
    end = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(POLL_S)
    return True


async def until(
    condition: Callable[[], Awaitable[bool]], within_s: float, what: Callable[[], str] | str
) -> None:
    """Wait until a condition holds. Raises `NotInTime`, which names `what` was awaited."""
    if not await within(condition, within_s):
        text = what if isinstance(what, str) else what()
        raise NotInTime(f"after {within_s:.0f} s still not: {text}")
