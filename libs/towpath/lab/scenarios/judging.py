"""Judge the jobs of a run: wait until they are in order and drained, then compare them with the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from towpath.contracts.autopilot import AutopilotMode
from towpath.contracts.commands import JobView, OperationState, StrategyName
from towpath.contracts.errors import TowpathError
from towpath.contracts.scenario import Scenario
from towpath.lab.harness.journal import Entry, Journal
from towpath.lab.harness.judge import disorder_s, unstored
from towpath.lab.harness.load import Device
from towpath.lab.harness.observer import QUIET_S, ObservedJob
from towpath.lab.harness.report import Judgement, MoveReport
from towpath.lab.harness.stage import Stage
from towpath.lab.scenarios.sampler import Sampler

SETTLE_S = 120.0
"""Seconds after the load's end for everything to run, and one site to own each job: an engine that was killed
needs more than a minute to restart on a busy machine."""

CERTAIN_S = 40.0
"""Seconds of silence after which a result counts as lost, where none may be."""

WATCH_RESULTS_S = 60.0
"""Seconds beyond the allowed time for results to flow again, to tell slow from never."""

SURPLUS_S = 0.8
"""Seconds in which a surplus result shows up after the last expected one."""


@dataclass
class Judging:
    """The verdicts of one run, after its load."""

    stage: Stage
    scenario: Scenario
    journal: Journal
    moves: Sequence[MoveReport] = ()
    """The migrations of the run."""
    verdicts: dict[str, Judgement] = field(default_factory=dict)
    """By job."""
    unsettled: list[str] = field(default_factory=list)
    """Why the mesh is not in order."""
    unstored: int = 0
    """Events that a broker acknowledged and that are not in its topic."""
    problems: list[str] = field(default_factory=list)
    """Faults of inputs, and jobs at the wrong site."""

    async def judge(self, sampler: Sampler) -> None:
        """Judge all jobs that can be judged, each after those whose results it reads.

        Raises `TowpathError` when an input cannot be read.
        """
        jobs = [job for job in sampler.upstream_first() if not job.changed]
        await asyncio.gather(*(self._settled(job) for job in jobs))
        quiet_s = CERTAIN_S if self.scenario.expect.lost.at_most == 0 else QUIET_S
        for job in jobs:
            await job.drained(self.scenario.phases.drain_s, quiet_s)
        await asyncio.sleep(SURPLUS_S)
        for job in jobs:
            if job.judged:
                await self._judge(job)
        for device in sampler.devices:
            await self._compare_input(device, jobs)

    async def _settled(self, job: ObservedJob) -> None:
        removal = next((m for m in self.moves if m.job == job.name and m.is_removal), None)
        try:
            if removal is not None:
                job.ended_after = removal.stopped_after
                return await self.stage.until_gone(job.name, SETTLE_S)
            view = await self.stage.until_settled(job.name, SETTLE_S)
        except TowpathError as error:
            self.unsettled.append(error.detail.message)
            return
        assert view is not None
        wrong = misplaced(view, self.moves)
        # A pipeline that was applied meanwhile may have moved the job again, and so may the autopilot.
        applied = {each.name for step in self.scenario.timeline if step.apply for each in step.apply.jobs}
        acts = self.scenario.mesh is not None and self.scenario.mesh.autopilot is AutopilotMode.ACT
        if wrong is not None and job.name not in applied and not acts:
            self.problems.append(wrong)

    async def _judge(self, job: ObservedJob) -> None:
        verdict = await job.verdict(in_order=self.scenario.expect.in_order)
        job.look()
        judgement = Judgement.of(verdict, job.rejected)
        if any(move.job == job.name and move.strategy == StrategyName.TWIN for move in self.moves):
            # Two epochs publish by turns: the one that is older is not over.
            judgement = judgement.model_copy(update={"stale_owner": 0})
        self.verdicts[job.name] = judgement
        self.journal.add(Entry.VERDICT, job=job.name, **judgement.model_dump(mode="json"))
        # In a thread, like all that takes seconds: subscribers share the event loop.
        late = await asyncio.to_thread(disorder_s, job.spec, job.event_inputs)
        if late > 0:
            self.problems.append(f"the load came {late:.1f} s later than the watermark of {job.name} waits")

    async def _compare_input(self, device: Device, jobs: list[ObservedJob]) -> None:
        """Compare what a device's broker has acknowledged with what the input of a job holds."""
        name = f"{device.load.site}/{device.load.topic}"
        whole = (job for job in jobs if job.judged and job.since <= device.begun_at)
        read = (each for job in whole for each in job.event_inputs)
        stored = next((each for each in read if each.name == name), None)
        missing = [] if stored is None else await asyncio.to_thread(unstored, device.sent, stored)
        self.unstored += len(missing)
        if missing and not self.scenario.expect.unstored.hold(self.unstored):
            example = missing[0].decode(errors="replace")
            count = f"{len(missing)} acknowledged events of {name} are not stored"
            self.problems.append(f"{count}, e.g. {example}")


async def results_again(sampler: Sampler, since: float, within_s: float | None) -> float | None:
    """Return the seconds from `since` until all judged jobs have results of later events.

    None if they have not long after `within_s`, or if that is None.
    """
    jobs = [job for job in sampler.jobs.values() if job.judged]
    if within_s is None or not jobs:
        return None
    took = await asyncio.gather(*(job.recovered_after(since, within_s + WATCH_RESULTS_S) for job in jobs))
    return None if None in took else max(seconds for seconds in took if seconds is not None)


def misplaced(view: JobView, moves: Sequence[MoveReport]) -> str | None:
    """Say how a job is not where its last operation has left it. None if it is there, or never moved."""
    last = next((move for move in reversed(moves) if move.job == view.spec.name), None)
    if last is None or last.state is None:
        return None
    ends = {OperationState.COMPLETED: last.target, OperationState.ROLLED_BACK: last.source}
    if view.site == ends.get(last.state, view.site):
        return None
    return f"the {last.kind} of {last.job} is {last.state}, and the job is at {view.site}"
