"""All engines of a site: the one that jobs share, and those of single jobs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from towpath.agent.containment import Containment
from towpath.agent.engine_client import EngineClient
from towpath.contracts.engine import SHARED_ENGINE, QueryList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, JobContainer, JobSpec
from towpath.contracts.migration import Paused
from towpath.contracts.site_commands import Recomputed
from towpath.mesh.names import engine_process
from towpath.processes import ChildSpec, Supervisor, listed, stop
from towpath.tasks import NotInTime, until

log = logging.getLogger(__name__)

READY_S = 50.0
"""Time for an engine to start. It takes seven seconds on a quiet machine."""

IDLE_S = 300.0
"""Time that the shared engine stays without a job. A job that comes back finds it warm."""

LOOK_S = 0.1
LEFTOVER_STOP_S = 3.0


class Engines:
    """Starts and ends engines with their jobs, and knows which engine runs which job."""

    def __init__(
        self,
        supervisor: Supervisor,
        containment: Containment,
        client: Callable[[str], EngineClient],
        child: Callable[[EngineClient, JobSpec | None, bool], ChildSpec],
        site: str,
        *,
        always: bool = False,
        idle_s: float = IDLE_S,
    ) -> None:
        """`client` and `child` make the client and the process of an engine, by its name and by its job.

        The process is also told if a job waits for it.

        `always`: the shared engine runs from the start. Else it starts with the first job, and ends when it
        has had none for `idle_s` seconds.
        """
        self._supervisor = supervisor
        self._containment = containment
        self._client = client
        self._child = child
        self._site = site
        self.shared = client(SHARED_ENGINE)
        self._own: dict[str, EngineClient] = {}
        self._starting = asyncio.Lock()
        self._always = always
        self._idle_s = idle_s
        self._used_at = time.monotonic()
        """The last time when a job needed the shared engine."""

    def names(self) -> list[str]:
        """Return the engines that run or must run."""
        shared = [SHARED_ENGINE] if self._supervisor.keeps(self._process(SHARED_ENGINE)) else []
        return [*shared, *self._own]

    def is_starting(self, assignment: Assignment) -> bool:
        """True if the engine of the job has just started and no one can have asked it for anything."""
        name = self._process(engine_of(assignment))
        return self._supervisor.keeps(name) and self._supervisor.is_starting(name)

    async def start(self, run: Path, assignments: Iterable[Assignment]) -> None:
        """Keep the engines of present jobs running.

        An engine whose jobs left while no agent ran is ended. `run` is the directory of pid files.
        """
        if self._always:
            await self._keep(None)
        for assignment in assignments:
            await self._keep(assignment.spec)
        kept = {self._process(name) for name in self.names()}
        shared, own = self._process(SHARED_ENGINE), self._process("")
        for record in await asyncio.to_thread(listed, run):
            is_engine = record.name == shared or record.name.startswith(own)
            if is_engine and record.name not in kept:
                # Its container may stay for a while if the daemon does not answer.
                with contextlib.suppress(TowpathError):
                    await asyncio.to_thread(stop, run, record.name, grace_s=LEFTOVER_STOP_S)

    async def expect(self, wanted: JobContainer | None) -> None:
        """Make sure that a job can run here soon: its image is there, or the shared engine starts.

        Raises `TowpathError`, see `Containment`, or site down if the engine does not answer.
        """
        await self._containment.ensure_image(wanted)
        if wanted is not None:
            return
        await self._keep(None)
        name = self._process(SHARED_ENGINE)
        if not self._supervisor.is_starting(name) and not await self.shared.answers():
            raise TowpathError(
                ErrorCode.SITE_DOWN, "the engine does not answer", field="site", value=self._site
            )

    async def queries(self, of: Assignment | None = None) -> Mapping[str, QueryList]:
        """Return engine → what it runs, for engines that answer. With `of`, ask only the engine of that job.

        Raises `TowpathError` when none answers.
        """
        names = self.names() if of is None else [name for name in self.names() if name == engine_of(of)]
        asked = [name for name in names if name == SHARED_ENGINE or self._is_ready(name)]
        found = await asyncio.gather(*(self._of(name).queries() for name in asked), return_exceptions=True)
        answers: dict[str, QueryList] = {}
        failures: list[BaseException] = []
        for name, answer in zip(asked, found, strict=True):
            if isinstance(answer, QueryList):
                answers[name] = answer
            elif not isinstance(answer, TowpathError):
                raise answer
            else:
                failures.append(answer)
        if failures and not answers:
            raise failures[0]
        return answers

    async def run(self, assignment: Assignment, checkpoint: Path) -> None:
        """Keep a job running, in its own engine if it has one."""
        await (await self._ready(assignment)).run(assignment, checkpoint)

    async def analyse(self, assignment: Assignment, checkpoint: Path) -> None:
        """Compile a job where it will run, so that its start is faster."""
        await (await self._ready(assignment)).analyse(assignment, checkpoint)

    async def check(self, assignment: Assignment, checkpoint: Path) -> None:
        """Compile a job that may never be started, without starting an engine of its own for it.

        The contents of an image of its own are not available then. The check ends with the image in that
        case.
        """
        wanted = assignment.spec.container
        await self._containment.ensure_image(wanted)
        if wanted is None or wanted.image is None:
            await self._keep(None, job_waits=True)
            await (await self._answering(SHARED_ENGINE)).analyse(assignment, checkpoint)

    async def recompute(self, assignment: Assignment, after: int, through: int) -> Recomputed:
        """Compute a range of events as one window, and publish nothing."""
        return await (await self._ready(assignment)).recompute(assignment, after, through)

    async def halt(self, engine: str, job: str, within_s: float) -> Paused:
        """Stop a job at a micro-batch boundary of its engine. Raises `TowpathError` (unknown job)."""
        if engine not in self.names():
            raise TowpathError(ErrorCode.UNKNOWN_JOB, f"{job} has no engine here", field="job", value=job)
        return await self._of(engine).halt(job, within_s)

    async def drop(self, job: str) -> None:
        """End a job's own engine, if it has one."""
        async with self._starting:
            if self._own.pop(job, None) is not None:
                await self._supervisor.drop(self._process(job))

    async def tidy(self, assignments: Mapping[str, Assignment]) -> None:
        """End engines that no job needs any more; the shared one after a while."""
        for job in list(self._own):
            assignment = assignments.get(job)
            if assignment is None or assignment.spec.container is None:
                await self.drop(job)
        if any(engine_of(assignment) == SHARED_ENGINE for assignment in assignments.values()):
            await self._keep(None)
            return
        async with self._starting:
            if not self._always and time.monotonic() - self._used_at > self._idle_s:
                await self._supervisor.drop(self._process(SHARED_ENGINE))

    async def _ready(self, assignment: Assignment) -> EngineClient:
        """Return a job's engine and start it if necessary. Raises `TowpathError` (site down) if it fails."""
        await self._keep(assignment.spec)
        return await self._answering(engine_of(assignment))

    async def _answering(self, name: str) -> EngineClient:
        """Wait until an engine has started. Raises `TowpathError` (site down) if it does not."""

        async def is_ready() -> bool:
            return self._is_ready(name)

        try:
            await until(is_ready, READY_S, LOOK_S)
        except NotInTime as error:
            trouble = self._supervisor.trouble(self._process(name)) or f"not ready within {READY_S:g} s"
            which = "engine" if name == SHARED_ENGINE else f"engine of {name}"
            raise TowpathError(
                ErrorCode.SITE_DOWN,
                f"the {which} does not start: {trouble}",
                field="site",
                value=self._site,
            ) from error
        return self._of(name)

    async def _keep(self, spec: JobSpec | None, *, job_waits: bool = False) -> None:
        """Keep the engine of a job running; without a job, or if it has none of its own, the shared one.

        `job_waits`: someone deploys a job, and no other site runs it meanwhile.
        """
        async with self._starting:
            if spec is not None and spec.container is not None:
                client = self._own.setdefault(spec.name, self._client(spec.name))
                await self._supervisor.keep(self._child(client, spec, job_waits))
                return
            self._used_at = time.monotonic()
            if not self._supervisor.keeps(self._process(SHARED_ENGINE)):
                await self._supervisor.keep(self._child(self.shared, None, job_waits))

    def _of(self, engine: str) -> EngineClient:
        return self.shared if engine == SHARED_ENGINE else self._own[engine]

    def _is_ready(self, engine: str) -> bool:
        name = self._process(engine)
        return self._supervisor.keeps(name) and self._supervisor.is_ready(name)

    def _process(self, engine: str) -> str:
        return engine_process(self._site, None if engine == SHARED_ENGINE else engine)


def engine_of(assignment: Assignment) -> str:
    """Return the name of the engine that runs a job at its site."""
    return SHARED_ENGINE if assignment.spec.container is None else assignment.spec.name
