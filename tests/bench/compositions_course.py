"""One chain of trivial jobs, observed from its deployment to its deletion."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np
from benchmark import Say
from compositions_gaps import Gaps, Interval, gaps
from compositions_usage import Usage, cores_of, total, usage_of
from load_process import load
from measured_mesh import LOOK_S, MeasuredMesh, until
from reports import TOPIC
from verdicts import judge_passed, serials_and_latencies

from towpath.contracts.commands import ShowOperation
from towpath.contracts.data_plane import output_stream
from towpath.contracts.job import Input, Output
from towpath.contracts.message import Command
from towpath.contracts.operators import Forward
from towpath.contracts.pipeline import ApplyState, ApplyView, PipelineJob, PipelineSpec
from towpath.contracts.pipeline_commands import ApplyPipeline, DeletePipeline

TRIGGER_S = 1.0
"""The default. In a chain every job waits for its trigger after the one before has published."""

BATCHES_PER_S = 5.0
"""Micro-batches with events that all jobs of a chain run together: a quarter of two cores. A chain of n jobs
gets an event every n / 5 s, and never more than four a second."""

SETTLE_S = 5.0
QUIET_INTERVALS = 4
"""Smallest number of results from which a job's usual interval is computed."""

APPLY_S, PER_JOB_S = 120.0, 15.0
HOP_S = 8.0
ATTEMPT_S = 30.0
STEPS_OF = 25
"""Number of an apply's operations that are analysed step by step."""


def chain(name: str, jobs: int, sites: list[str], after: int, revisions: dict[int, int]) -> PipelineSpec:
    """Return jobs at the first site, then at the second, …; `revisions` counts modifications of each."""

    def site(position: int) -> str:
        return sites[position * len(sites) // jobs]

    def job(position: int) -> PipelineJob:
        source = Input(site=site(0), topic=TOPIC, start=after)
        if position:
            source = Input(site=site(position - 1), topic=f"{name}/{position - 1}")
        return PipelineJob(
            name=job_name(name, position),
            site=site(position),
            inputs=[source],
            output=Output(topic=f"{name}/{position}"),
            operator=Forward(),
            trigger_s=TRIGGER_S,
            max_events_per_batch=1_000 + revisions.get(position, 0),
        )

    return PipelineSpec(name=name, jobs=[job(position) for position in range(jobs)])


def job_name(chain: str, position: int) -> str:
    """The job at a position of a chain, counted from its source."""
    return f"{chain}-{position}"


@dataclass
class Seen:
    """Measurements of one chain."""

    deploy_s: float = 0.0
    modify_s: dict[int, float] = field(default_factory=dict)
    """Jobs modified → seconds."""
    delete_s: float = 0.0
    changing: dict[int, Interval] = field(default_factory=dict)
    idle_cores: dict[str, float] = field(default_factory=dict)
    busy_cores: dict[str, float] = field(default_factory=dict)
    memory: dict[str, Usage] = field(default_factory=dict)
    quiet: Interval = (0.0, 0.0)
    gaps: list[Gaps] = field(default_factory=list)
    cpu_s: dict[str, float] = field(default_factory=dict)
    """Action → CPU seconds of the whole mesh meanwhile."""
    steps_s: dict[str, dict[str, float]] = field(default_factory=dict)
    """Action → step of its operations → mean seconds."""
    events: int = 0
    faults: int = 0


@dataclass
class Chain:
    """One chain, from its deployment to its deletion."""

    mesh: MeasuredMesh
    jobs: int
    sites: list[str]
    modify: tuple[int, ...]
    """Numbers of last jobs to modify, one apply after the other."""
    sample_s: float
    """Seconds to watch it without events, and then with events."""
    say: Say
    seen: Seen = field(default_factory=Seen)
    after: int = 0
    revisions: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = self.mesh.fresh_name(f"chain{self.jobs}")
        self.site_of = [job.site for job in self._spec().jobs]

    @property
    def period_s(self) -> float:
        """Seconds between two events."""
        return max(self.jobs / BATCHES_PER_S, 0.25)

    async def measure(self) -> Seen:
        """Deploy, watch idle and busy, modify ever more jobs, delete."""
        self.after = await self.mesh.last_serial(self.sites[0])
        self.seen.deploy_s, _ = await self._timed(ApplyPipeline(spec=self._spec()), "deploy")
        await asyncio.sleep(SETTLE_S)
        self.seen.idle_cores = await cores_of(self.mesh, self.sample_s)
        async with load(self.mesh.load_spec(self.sites[0], rate=1 / self.period_s)) as running:
            await self._until_flowing()
            await self._watch()
            for count in self.modify:
                await self._modify(count)
            self.seen.events = (await running.stop()).acknowledged
        await self._until_through()
        await self._judge()
        delete = DeletePipeline(pipeline=self.name)
        self.seen.delete_s, _ = await self._timed(delete, "delete")
        return self.seen

    async def _watch(self) -> None:
        """Observe the chain at work while nothing changes."""
        begun = time.time()
        self.seen.busy_cores = await cores_of(self.mesh, self.sample_s)
        await asyncio.sleep(max(0.0, QUIET_INTERVALS * max(self.period_s, TRIGGER_S) + begun - time.time()))
        self.seen.memory = await usage_of(self.mesh)
        self.seen.quiet = (begun, time.time())

    async def _modify(self, count: int) -> None:
        """Modify the last jobs. Jobs before them keep their input and must go on undisturbed."""
        for position in range(self.jobs - count, self.jobs):
            self.revisions[position] = self.revisions.get(position, 0) + 1
        begun = time.time()
        took_s, view = await self._timed(ApplyPipeline(spec=self._spec()), f"modify {count}")
        self.seen.modify_s[count] = took_s
        self.seen.changing[count] = (begun, time.time())
        changed = sum(bool(change.operations) for change in view.changes)
        if changed != count:
            raise RuntimeError(f"{changed} jobs were changed instead of {count}")

    async def _timed(self, command: Command[ApplyView], what: str) -> tuple[float, ApplyView]:
        before = total(await usage_of(self.mesh))
        begun = time.monotonic()
        within_s = APPLY_S + PER_JOB_S * self.jobs
        view = await self.mesh.bus.request(command, deadline_s=within_s, attempt_s=ATTEMPT_S)
        took_s = time.monotonic() - begun
        self.seen.cpu_s[what] = total(await usage_of(self.mesh)).cpu_s - before.cpu_s
        if view.state is not ApplyState.COMPLETED:
            errors = {c.error.one_line() for c in view.changes if c.error is not None}
            raise RuntimeError(f"{what}: {view.state}: {'; '.join(sorted(errors))}")
        self.say(f"{self.jobs} jobs: {what} {took_s:.1f} s")
        self.seen.steps_s[what] = await self._steps(view)
        return took_s, view

    async def _steps(self, view: ApplyView) -> dict[str, float]:
        """Return the mean seconds of each step of an apply's operations."""
        operations = [operation for change in view.changes for operation in change.operations]
        taken: defaultdict[str, list[float]] = defaultdict(list)
        for operation in operations[:STEPS_OF]:
            shown = await self.mesh.bus.request(ShowOperation(operation=operation), deadline_s=LOOK_S)
            begun = {entry.step: entry.at for entry in shown.journal if entry.phase == "begun"}
            for entry in shown.journal:
                if entry.phase == "confirmed":
                    taken[entry.step].append((entry.at - begun[entry.step]).total_seconds())
            if shown.ended_at is not None:
                taken["whole"].append((shown.ended_at - shown.begun_at).total_seconds())
        return {step: round(sum(all_s) / len(all_s), 4) for step, all_s in taken.items()}

    async def _until_flowing(self) -> None:
        """Wait until the last job has results."""
        await until(self._last_has(1), HOP_S * self.jobs + APPLY_S, "a result of the last job")

    async def _until_through(self) -> None:
        """Wait until the last job has all results."""
        within_s = HOP_S * self.jobs + APPLY_S
        await until(self._last_has(self.seen.events), within_s, f"{self.seen.events} results of the last job")

    def _last_has(self, results: int) -> Callable[[], Awaitable[bool]]:
        async def check() -> bool:
            stream = output_stream(job_name(self.name, self.jobs - 1))
            return (await self.mesh.stored(self.site_of[-1], stream))[0] >= results

        return check

    async def _judge(self) -> None:
        """Check that every event passed every job once, and that untouched jobs went on as before."""
        arrivals: dict[str, np.ndarray] = {}
        for position, site in enumerate(self.site_of):
            stream = output_stream(job_name(self.name, position))
            _, last = await self.mesh.stored(site, stream)
            pages = await self.mesh.read(
                site, stream, 0, last, lambda page: (page, *serials_and_latencies(page))
            )
            serials = np.concatenate([serials for _, serials, _ in pages])
            begin = self.after if position == 0 else 0
            verdict = judge_passed(serials, serials, begin, begin + self.seen.events)
            self.seen.faults += verdict.lost + verdict.duplicated
            stored = np.array([m.published.timestamp() for page, _, _ in pages for m in page])
            arrivals[str(position)] = stored
        # A lost or repeated event has its own verdict, and makes times incomparable.
        for count, interval in self.seen.changing.items() if not self.seen.faults else ():
            untouched = {p: times for p, times in arrivals.items() if int(p) < self.jobs - count}
            inputs = {p: arrivals[str(int(p) - 1)] for p in untouched if int(p)}
            found = gaps(untouched, self.seen.quiet, interval, TRIGGER_S, inputs)
            if found is not None:
                self.seen.gaps.append(found)

    def _spec(self) -> PipelineSpec:
        return chain(self.name, self.jobs, self.sites, self.after, self.revisions)
