"""Give slow jobs a twin, and end twins: one task for each.

A twin is a decision. It is stored before it begins, and its command has an identifier made from it. So an
autopilot that is killed is continued by the next one: the coordinator answers how the twin stands.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection

from nats.errors import Error as NatsError

from towpath.autopilot.delays import measured_delays
from towpath.autopilot.foresight import Sight
from towpath.autopilot.memory import Memory
from towpath.autopilot.settings import ATTEMPT_S, MOVE_DEADLINE_S, AutopilotSettings
from towpath.bus import Bus
from towpath.contracts.autopilot import (
    AutopilotMode,
    DecidedMove,
    Decision,
    DecisionOutcome,
    DecisionState,
    Expectation,
)
from towpath.contracts.commands import (
    AbortMigration,
    FinishMigration,
    JobList,
    JobView,
    MigrateJob,
    OperationState,
    OperationView,
    ShowOperation,
    StrategyName,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import new_identifier, now
from towpath.mesh.present_picture import ASK_S, present_jobs
from towpath.placement.autopilot.twins import Ending, TwinCourse, TwinRules, twin_place
from towpath.protocols.record import ENDED
from towpath.tasks import end
from towpath.telemetry.selection import matches

log = logging.getLogger(__name__)

END_S = 120.0
"""Deadline for the steps after both publish."""


class Twins:
    """Runs twins."""

    def __init__(self, bus: Bus, settings: AutopilotSettings, memory: Memory) -> None:
        self._bus = bus
        self._settings = settings
        self._memory = memory
        spec = settings.spec
        self._rules = TwinRules(most=spec.twins, dwell_s=spec.rest_s / 4, stays_s=spec.rest_s)
        self._slow: Counter[str] = Counter()
        """Job → looks in a row that found it slow."""
        self._running: dict[str, asyncio.Task[None]] = {}
        """By decision."""

    def resume(self) -> None:
        """Go on with the twins that an earlier autopilot began."""
        for decision in self._memory.twins:
            if decision.state is DecisionState.TWIN:
                self.start(decision)

    def start(self, decision: Decision) -> asyncio.Event:
        """Run a twin. Its state and its task begin together: nothing comes between them.

        Return what is set when the state is stored.
        """
        self._memory.keep(decision)
        stored = asyncio.Event()
        task = asyncio.create_task(self._run(decision, stored), name=f"twin {decision.decision}")
        self._running[decision.decision] = task
        task.add_done_callback(lambda _: self._running.pop(decision.decision, None))
        return stored

    async def stop(self) -> None:
        """Leave all twins as they are. The next autopilot goes on."""
        await end([*self._running.values()])

    @property
    def jobs(self) -> set[str]:
        """The jobs that have a twin, or will have one in a moment."""
        return {
            move.job
            for decision in self._memory.twins
            if decision.state is DecisionState.TWIN
            for move in decision.moves
        }

    async def look(self, jobs: JobList, sight: Sight) -> None:
        """Begin twins of slow jobs, or propose them. Raises `TowpathError`."""
        wanted = [job for job in jobs.jobs if self._may_have_one(job)]
        if not wanted:
            return
        delays = await measured_delays(self._bus)
        judged = {job.spec.name: delays.why_slow(job, jobs.jobs) for job in wanted}
        slow = {name: why for name, why in judged.items() if why is not None}
        self._slow = Counter({name: self._slow[name] + 1 for name in slow})
        await self._drop_proposals(slow)
        for name, why in slow.items():
            if self._slow[name] >= self._rules.agreeing and self._has_budget(name):
                await self._begin(jobs.named(name), why, sight)

    def _may_have_one(self, job: JobView) -> bool:
        qos = job.spec.qos
        is_asked_for = qos is not None and qos.replicas == "auto"
        is_free = job.operation is None and job.spec.name not in self.jobs
        return is_asked_for and is_free and matches(job.spec.name, self._settings.spec.jobs)

    def _has_budget(self, job: str) -> bool:
        twins = self._memory.twins
        moved = sum(len(times) for times in self._memory.moved_at_s().values())
        is_proposed = any(move.job == job for decision in twins for move in decision.moves)
        return (
            not is_proposed and len(twins) < self._rules.most and moved < self._settings.spec.moves_per_hour
        )

    async def _drop_proposals(self, slow: Collection[str]) -> None:
        for decision in self._memory.twins:
            if decision.state is DecisionState.PROPOSED and decision.moves[0].job not in slow:
                await self._memory.change(decision.model_copy(update={"state": DecisionState.DROPPED}))

    async def _begin(self, job: JobView, why: str, sight: Sight) -> None:
        name, situation = job.spec.name, sight.situation
        if name not in situation.current:
            return
        refused = {to for which, to in self._memory.vetoed(situation.rules.horizon_s) if which == name}
        target = await asyncio.to_thread(twin_place, situation, name, refused)
        if target is None:
            return
        acts = self._settings.spec.mode is AutopilotMode.ACT
        horizon_s = situation.ahead.seconds
        decision = Decision(
            decision=new_identifier(),
            decided=now(),
            state=DecisionState.TWIN if acts else DecisionState.PROPOSED,
            reason=why,
            moves=[DecidedMove(job=name, origin=job.site, target=target)],
            is_twin=True,
            due=now(),
            horizon_s=horizon_s,
            # If it goes on like this.
            staying=Expectation(late_s=horizon_s, joules=0.0, link_bytes=0.0),
            moving=Expectation(late_s=0.0, joules=0.0, link_bytes=0.0),
            gain_s=horizon_s,
            cost_s=0.0,
        )
        log.info("%s: %s + %s: %s", name, job.site, target, decision.reason)
        if acts:
            self.start(decision)
        else:
            await self._memory.change(decision)

    async def _run(self, decision: Decision, stored: asyncio.Event) -> None:
        """Begin the twin, and look at both runs until one goes on alone."""
        try:
            await self._memory.change(decision)
            stored.set()
            operation = await self._begun(decision)
            begun = now()
            view = await self._until_ended(decision, operation)
        except Exception as error:
            await self._memory.fail(decision, error)
            return
        stays = view.target if view.state is OperationState.COMPLETED else view.source
        ran_s = (now() - begun).total_seconds()
        outcome = DecisionOutcome(ended=now(), moved_s=ran_s, downtime_s=0.0, stays=stays)
        done = {"state": DecisionState.DONE, "outcome": outcome}
        await self._memory.change(decision.model_copy(update=done))
        log.info("%s: %s goes on alone", view.job, stays)

    async def _begun(self, decision: Decision) -> str:
        """Return the operation once both sites publish. Raises `TowpathError` if they do not come so far."""
        [move] = decision.moves
        command = MigrateJob(
            id=f"{decision.decision}-1",
            asked_by=decision.asked_by,
            job=move.job,
            to=move.target,
            strategy=StrategyName.TWIN,
        )
        answer = await self._bus.request(command, deadline_s=MOVE_DEADLINE_S, attempt_s=ATTEMPT_S)
        return answer.operation

    async def _until_ended(self, decision: Decision, operation: str) -> OperationView:
        """Return the operation once one run goes on alone: by what was measured, or as people said."""
        course = TwinCourse()
        while True:
            try:
                view = await self._bus.request(ShowOperation(operation=operation), deadline_s=ASK_S)
                if view.state in ENDED:
                    return view
                course = await self._seen(decision, course)
                await self._end(operation, course.ending(time.monotonic(), self._rules))
            except (TowpathError, NatsError, OSError, TimeoutError) as error:
                if isinstance(error, TowpathError) and error.detail.code is ErrorCode.UNKNOWN_MIGRATION:
                    raise
                log.warning("no look at twin %s: %s", decision.decision, error)
            await asyncio.sleep(self._settings.spec.interval_s)

    async def _seen(self, decision: Decision, course: TwinCourse) -> TwinCourse:
        """Return the course of both runs after a look at them. Raises `TowpathError`."""
        [move] = decision.moves
        jobs = await present_jobs(self._bus)
        job = jobs.named(move.job)
        delays = await measured_delays(self._bus)
        return course.seen(
            delays.of_run(job, move.origin),
            delays.of_run(job, move.target),
            delays.limit_s(job, jobs.jobs),
            time.monotonic(),
            self._rules,
        )

    async def _end(self, operation: str, ending: Ending | None) -> None:
        """Let one run go on alone, if it is time. Raises `TowpathError`."""
        if ending is not None:
            end_it = AbortMigration if ending is Ending.SOURCE else FinishMigration
            await self._bus.request(end_it(operation=operation), deadline_s=END_S, attempt_s=ATTEMPT_S)
