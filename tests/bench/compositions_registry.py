"""Size on disk of the registry of a thousand jobs, written by a real coordinator. Sites run no Spark."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmark import Benchmark, Say, Scale
from compositions_chains import SITES
from compositions_course import chain
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh, temporary_home, until
from redis.asyncio import Redis
from redis.exceptions import RedisError

from towpath.bus import Bus
from towpath.contracts.job import Assignment, JobState, JobStatus
from towpath.contracts.message import Model
from towpath.contracts.migration import SiteCommand
from towpath.contracts.pipeline import ApplyState
from towpath.contracts.pipeline_commands import ApplyPipeline
from towpath.contracts.reply import Done
from towpath.contracts.site import MeshSpec, SiteState, SiteStatus
from towpath.contracts.site_commands import SITE_COMMANDS, StartJob
from towpath.mesh.binaries import redis_server_binary
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.servers import hub_servers, redis_server, site_server
from towpath.mesh.service_child import service_child
from towpath.mesh.services.coordinator import COORDINATOR
from towpath.mesh.state import MeshState
from towpath.processes import Supervisor

USED_SITES = SITES[:2]
JOBS_OF_A_PIPELINE = 100
JOBS = {Scale.QUICK: 100, Scale.DEFAULT: 1_000, Scale.FULL: 1_000}

ON_DISK, PER_THOUSAND = "on disk, KB", "KB per 1,000 jobs"
TARGETS = {PER_THOUSAND: Target(at_most=754.0)}
"""The figure that SpecK's paper reports."""

BEAT_S = 1.0
READY_S, APPLY_S, REWRITE_S = 60.0, 600.0, 60.0


@dataclass
class _Agents:
    """Agents that execute every command at once and report that the jobs run."""

    state: MeshState
    jobs: dict[str, dict[str, Assignment]] = field(default_factory=dict)
    """Site → its jobs."""

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Serve all sites."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            beating = [group.create_task(self._beat(await self._connect(stack, s))) for s in self.state.sites]
            try:
                yield
            finally:
                for beat in beating:
                    beat.cancel()

    async def _connect(self, stack: AsyncExitStack, name: str) -> tuple[str, Bus]:
        site = self.state.site(name)
        connecting = Bus.connect(
            site.nats_url, site.login("agent").user, site.login("agent").password, name=name
        )
        bus = await stack.enter_async_context(await connecting)
        self.jobs[name] = {}
        for kind in SITE_COMMANDS:
            await bus.serve(kind, partial(self._handle, name), site=name)
        return name, bus

    async def _handle(self, site: str, command: SiteCommand[Any]) -> Model:
        if isinstance(command, StartJob):
            self.jobs[site][command.assignment.spec.name] = command.assignment
        return Done()

    async def _beat(self, connected: tuple[str, Bus]) -> None:
        site, bus = connected
        address = {"nats_url": "", "mqtt_host": "", "mqtt_port": 0}
        while True:
            jobs = [
                JobStatus(job=name, **assignment.version._asdict(), state=JobState.RUNNING)
                for name, assignment in self.jobs[site].items()
            ]
            await bus.publish(SiteStatus(site=site, state=SiteState.UP, jobs=jobs, **address))
            await asyncio.sleep(BEAT_S)


async def measure(_: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Apply pipelines of a hundred jobs each. Then measure the file of Redis, as it is and rewritten."""
    jobs = JOBS[scale]
    measured.notes += [
        f"{jobs} forward jobs in pipelines of {JOBS_OF_A_PIPELINE}, applied by a real coordinator; agents "
        "answer at once",
        "everything counts: jobs, descriptions with their versions, applies, and the operations, with "
        "their journals, as far as they are kept; KB are 1,000 bytes",
    ]
    with temporary_home() as home:
        state = provision(home.create(), MeshSpec(sites=list(USED_SITES)))
        coordinator = service_child(COORDINATOR, state, home)
        servers = [*hub_servers(state, home), redis_server(state, home)]
        servers += [site_server(state, site, home) for site in state.sites]
        async with Supervisor([*servers, coordinator], home.run):
            await until(lambda: _all_listen(servers), READY_S, "the servers")
            async with _Agents(state).at_work():
                took_s = await _apply_all(state, jobs, say)
        raw = _bytes_in(home.redis)
        rewritten, keys = await _rewritten(home)
    measured.raw["keys"] = keys
    figures: dict[str, Value] = {
        "as written, KB": rounded(raw / 1e3, 0),
        ON_DISK: rounded(rewritten / 1e3, 1),
        PER_THOUSAND: rounded(rewritten / jobs, 1),
        "coordinator, s per job": rounded(took_s / jobs, 4),
    }
    measured.cases.append(Case(f"{jobs} jobs", figures, TARGETS))


async def _all_listen(servers: list[Any]) -> bool:
    return all([await server.ready() for server in servers])


async def _apply_all(state: MeshState, jobs: int, say: Say) -> float:
    sites = [site.name for site in USED_SITES]
    operator = state.operator
    begun = time.monotonic()
    async with await Bus.connect(state.hub_url, operator.user, operator.password, name="bench") as bus:
        for number in range(jobs // JOBS_OF_A_PIPELINE):
            spec = chain(f"chain{number}", JOBS_OF_A_PIPELINE, sites, 0, {})
            command = ApplyPipeline(spec=spec)
            view = await bus.request(command, deadline_s=APPLY_S, attempt_s=10.0)
            if view.state is not ApplyState.COMPLETED:
                raise RuntimeError(f"apply {view.apply}: {view.note}")
            say(f"{(number + 1) * JOBS_OF_A_PIPELINE} jobs after {time.monotonic() - begun:.0f} s")
    return time.monotonic() - begun


async def _rewritten(home: Home) -> tuple[int, dict[str, int]]:
    """Let Redis rewrite the registry's file. Return its bytes, and the share of each kind of keys."""
    socket = home.redis / "socket"
    options = ["--dir", str(home.redis), "--port", "0", "--unixsocket", str(socket), "--appendonly", "yes"]
    process = await asyncio.create_subprocess_exec(
        redis_server_binary(), *options, "--save", "", stdout=asyncio.subprocess.DEVNULL
    )
    try:
        async with Redis(unix_socket_path=str(socket)) as redis:
            await until(lambda: _answers(redis), READY_S, "Redis")
            await redis.bgrewriteaof()
            await until(lambda: _is_rewritten(redis), REWRITE_S, "the rewritten file")
            return _bytes_in(home.redis), await _bytes_by_kind(redis)
    finally:
        process.terminate()
        await process.wait()


async def _answers(redis: Redis) -> bool:
    with contextlib.suppress(RedisError, OSError):
        return bool(await redis.ping())  # type: ignore[misc]
    return False


async def _is_rewritten(redis: Redis) -> bool:
    info = await redis.info("persistence")
    return not info["aof_rewrite_in_progress"] and not info["aof_rewrite_scheduled"]


async def _bytes_by_kind(redis: Redis) -> dict[str, int]:
    kinds: Counter[str] = Counter()
    async for key in redis.scan_iter(count=1000):
        # DUMP returns the form that the file has.
        kinds[key.decode().split(":")[1]] += len(key) + len(await redis.dump(key) or b"")
    return dict(kinds)


def _bytes_in(directory: Path) -> int:
    """Return the bytes of Redis's append-only files, under the names of any version."""
    return sum(path.stat().st_size for path in directory.rglob("appendonly*") if path.is_file())


BENCHMARK = Benchmark("registry", "the registry on disk", (), measure)
