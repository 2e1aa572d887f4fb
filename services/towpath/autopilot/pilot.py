"""Look, decide, move, look back: one decision at a time.

A decision is stored before its first move, and each move has an identifier made from it. So an autopilot that
is killed while jobs move is continued by the next one: the coordinator recognises the moves it has already.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

from nats.errors import Error as NatsError

from towpath.autopilot.foresight import Foresight, Sight
from towpath.autopilot.looking_back import LookingBack
from towpath.autopilot.memory import Memory
from towpath.autopilot.reasons import RULES, reason_of
from towpath.autopilot.settings import ATTEMPT_S, MOVE_DEADLINE_S, AutopilotSettings
from towpath.autopilot.twins import Twins
from towpath.bus import Bus
from towpath.contracts.autopilot import (
    AutopilotMode,
    DecidedMove,
    Decision,
    DecisionOutcome,
    DecisionState,
    Expectation,
)
from towpath.contracts.commands import MigrateJob, MigrationFigures, OperationState, ShowOperation
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import new_identifier, now
from towpath.mesh.present_picture import ASK_S, present_jobs
from towpath.placement.autopilot import deciding
from towpath.placement.autopilot.deciding import Past, Verdict, decide
from towpath.placement.autopilot.violations import Prediction
from towpath.placement.jobs.policies.registry import policy
from towpath.tasks import end

log = logging.getLogger(__name__)

WAITS = frozenset({DecisionState.PLANNED, DecisionState.HELD, DecisionState.PROPOSED})
"""States of a decision of which the next look may make another one."""


class Pilot:
    """Runs decisions."""

    def __init__(self, bus: Bus, settings: AutopilotSettings, memory: Memory) -> None:
        self._bus = bus
        self._settings = settings
        self._memory = memory
        self._foresight = Foresight(bus, settings, memory)
        self._back = LookingBack(bus, settings, memory)
        self._twins = Twins(bus, settings, memory)
        self._policy = policy(settings.spec.policy)
        self._past = Past()
        self._moving: asyncio.Task[None] | None = None
        self._changed_s = time.monotonic()
        """End of the last change of the mesh."""
        self.looked: datetime | None = None
        self.trouble: str | None = None

    async def fly(self) -> None:
        """Look at every interval, until cancelled. Failures do not end it."""
        try:
            if (left := self._memory.open) is not None and left.state is DecisionState.MOVING:
                self._start(left)
            self._twins.resume()
            while True:
                await asyncio.sleep(self._settings.spec.interval_s)
                await self._try()
        finally:
            if self._moving is not None:
                await end([self._moving])
            await self._twins.stop()

    async def _try(self) -> None:
        back = await self._tried(self._back.review)
        ahead = await self._tried(self._look)
        if ahead is None:
            self.looked = now()
        self.trouble = ahead or back

    async def _tried(self, look: Callable[[], Awaitable[None]]) -> str | None:
        """Look. Return what kept it from it; sites may tell anything."""
        try:
            async with asyncio.timeout(6 * ASK_S):
                await look()
        except (TowpathError, NatsError, OSError, TimeoutError, ValueError, ArithmeticError) as error:
            log.warning("no look: %s", error)
            return str(error) or type(error).__name__
        return None

    async def _look(self) -> None:
        jobs = await present_jobs(self._bus)
        changing = [job for job in jobs.jobs if job.operation and job.spec.name not in self._twins.jobs]
        if self._is_moving or changing:
            self._changed_s = time.monotonic()
        unchanged_s = time.monotonic() - self._changed_s
        if unchanged_s < self._settings.rules.settled_s:
            return  # What is measured during a change says little about afterwards.
        sight = await self._foresight.look(jobs, unchanged_s, stay=self._twins.jobs)
        past = replace(
            self._past,
            moved_at_s=self._memory.moved_at_s(),
            vetoed=self._memory.vetoed(self._settings.spec.horizon_s),
        )
        found = await asyncio.to_thread(decide, sight.situation, self._policy, past, now().timestamp())
        self._past = found.remembered(past)
        await self._take(found, sight)
        if not self._is_moving:
            await self._twins.look(jobs, sight)

    @property
    def _is_moving(self) -> bool:
        return self._moving is not None and not self._moving.done()

    async def _take(self, found: deciding.Decision, sight: Sight) -> None:
        """Make the stored decision that of this look."""
        before = self._memory.open
        approved = before is not None and before.state is DecisionState.MOVING
        if approved or found.verdict is Verdict.UNCONFIRMED:
            return
        if found.verdict is Verdict.CONTENT or found.gain_s < self._settings.rules.least_gain_s:
            if before is not None:
                await self._memory.change(before.model_copy(update={"state": DecisionState.DROPPED}))
            return
        wanted = self._decision(found, sight)
        if before is not None and before.moves == wanted.moves:
            if (before.state, before.rule) == (wanted.state, wanted.rule):
                return
            wanted = wanted.model_copy(update={"decision": before.decision, "decided": before.decided})
        elif before is not None:
            await self._memory.change(before.model_copy(update={"state": DecisionState.DROPPED}))
        log.info("%s: %s: %s", wanted.state, ", ".join(map(_told, wanted.moves)), wanted.reason)
        if wanted.state is DecisionState.MOVING:
            self._start(wanted)
        else:
            await self._memory.change(wanted)

    def _decision(self, found: deciding.Decision, sight: Sight) -> Decision:
        assert found.staying is not None
        assert found.moving is not None
        act = self._settings.spec.mode is AutopilotMode.ACT
        states = {
            Verdict.MOVE: DecisionState.MOVING if act else DecisionState.PROPOSED,
            Verdict.TOO_EARLY: DecisionState.PLANNED,
        }
        return Decision(
            decision=new_identifier(),
            decided=now(),
            state=states.get(found.verdict, DecisionState.HELD),
            reason=reason_of(found, sight),
            rule=RULES.get(found.verdict, ""),
            moves=[DecidedMove(job=m.job, origin=m.origin, target=m.target) for m in found.moves],
            due=now() + timedelta(seconds=found.due_s),
            horizon_s=sight.situation.ahead.seconds,
            staying=_expectation(found.staying),
            moving=_expectation(found.moving),
            gain_s=found.gain_s,
            cost_s=found.cost_s,
        )

    async def approve(self, name: str, asked_by: str | None) -> Decision:
        """Carry out a decision that waits. Raises `TowpathError`."""
        decision = self._waiting(name)
        if self._is_moving:
            raise TowpathError(ErrorCode.BUSY, "jobs move for another decision", field="decision", value=name)
        state = DecisionState.TWIN if decision.is_twin else DecisionState.MOVING
        update = {"state": state, "rule": "", "due": now(), "asked_by": asked_by}
        begun = decision.model_copy(update=update)
        stored = self._twins.start(begun) if begun.is_twin else self._start(begun)
        await stored.wait()
        return begun

    async def refuse(self, name: str, asked_by: str | None) -> Decision:
        """Forbid a decision that waits. Raises `TowpathError`."""
        refused = {"state": DecisionState.REFUSED, "asked_by": asked_by}
        return await self._memory.change(self._waiting(name).model_copy(update=refused))

    def _waiting(self, name: str) -> Decision:
        decision = self._memory.decision(name)
        if decision.state not in WAITS:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"the decision is {decision.state}",
                field="decision",
                value=name,
                allowed=f"one that is {', '.join(sorted(WAITS))}",
            )
        return decision

    def _start(self, decision: Decision) -> asyncio.Event:
        """Carry out a decision. Its state and its task begin together: nothing comes between them.

        Return what is set when the state is stored.
        """
        self._memory.keep(decision)
        stored = asyncio.Event()
        carrying_out = self._carry_out(decision, stored)
        self._moving = asyncio.create_task(carrying_out, name=f"decision {decision.decision}")
        return stored

    async def _carry_out(self, decision: Decision, stored: asyncio.Event) -> None:
        """Make the moves one after the other. The first that fails ends it."""
        moved_s = downtime_s = 0.0
        try:
            await self._memory.change(decision)
            stored.set()
            for number, move in enumerate(decision.moves, 1):
                identifier, by = f"{decision.decision}-{number}", decision.asked_by
                command = MigrateJob(id=identifier, asked_by=by, job=move.job, to=move.target)
                figures = await self._moved(command)
                moved_s += figures.total_s
                downtime_s = max(downtime_s, figures.downtime_s or 0.0)
        except Exception as error:
            await self._memory.fail(decision, error)
            return
        outcome = DecisionOutcome(ended=now(), moved_s=moved_s, downtime_s=downtime_s)
        done = {"state": DecisionState.DONE, "outcome": outcome}
        await self._memory.change(decision.model_copy(update=done))

    async def _moved(self, command: MigrateJob) -> MigrationFigures:
        """Move a job, and return what it took. Raises `TowpathError` if it did not move."""
        try:
            answer = await self._bus.request(command, deadline_s=MOVE_DEADLINE_S, attempt_s=ATTEMPT_S)
        except TowpathError as error:
            if error.detail.code is ErrorCode.ALREADY_THERE:
                return MigrationFigures(total_s=0.0)
            raise
        if answer.state is not OperationState.COMPLETED:
            why = f"{command.job} did not move to {command.to}: {answer.state} {answer.note}"
            raise TowpathError(ErrorCode.FAILED, why)
        shown = await self._bus.request(ShowOperation(operation=answer.operation), deadline_s=ASK_S)
        return shown.figures or MigrationFigures(total_s=0.0)


def _told(move: DecidedMove) -> str:
    return f"{move.job}: {move.origin} → {move.target}"


def _expectation(predicted: Prediction) -> Expectation:
    return Expectation(
        late_s=predicted.total_late_s, joules=predicted.joules, link_bytes=predicted.link_bytes
    )
