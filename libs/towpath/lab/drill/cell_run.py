"""Play one cell: a migration under load, a fault at the moment when its step begins, and the verdict."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from towpath.checker.verdict import Verdict
from towpath.contracts.commands import MigrateJob, OperationState, OperationView, ShowOperation
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.drill.cues import Cues, listening
from towpath.lab.drill.faults import FAULTS, Victim
from towpath.lab.drill.matrix import INPUT_SITE, RECOVERED_WITHIN_S, Cell, FaultName
from towpath.lab.drill.moving_job import MovingJob
from towpath.lab.drill.report import CellReport
from towpath.lab.harness.report import findings
from towpath.protocols.attempts import attempts
from towpath.protocols.record import ENDED
from towpath.tasks import end

ACCEPT_S = 40.0
"""Seconds for the coordinator to accept the migration, even if it is killed meanwhile."""

END_S = 200.0
"""Seconds for a migration to end: more than a compensation is retried that must succeed."""

FAULT_S = 30.0
"""Seconds for a fault to be over after the migration."""

WATCH_RECOVERY_S = 60.0
"""Seconds beyond the allowed time for results to flow again, to tell slow from never."""

SETTLE_S = 60.0
"""Seconds from the end of a migration until one site owns the job, and everything runs."""

STOP_LOAD_S = 70.0
"""Seconds for the broker to acknowledge everything, after a minute away."""

DRAIN_S = 40.0
SURPLUS_S = 1.0
"""Seconds in which a surplus result shows up: more than a micro-batch and its retry take."""

JUDGED = ("lost", "duplicated", "wrong", "unexpected", "out_of_order")
"""Findings that make a cell not clean."""

ENDED_WELL = (OperationState.COMPLETED, OperationState.ROLLED_BACK)


@dataclass
class CellRun:
    """A cell under way."""

    cell: Cell
    job: MovingJob
    recovered_within_s: float = RECOVERED_WITHIN_S
    broken: bool = False
    """True if the mesh may not be used for another cell."""
    _known: dict[str, Any] = field(default_factory=dict)
    _reasons: list[str] = field(default_factory=list)
    _victim: str = ""
    """Name of the process that the fault hits."""

    async def run(self) -> CellReport:
        """Play the cell to its end. Its report says what went wrong."""
        begun = time.monotonic()
        device = self.job.device()
        try:
            device.start()
            await self.job.observed.until_flowing()
            await self._migrate()
            await device.stop(STOP_LOAD_S)
            await self._settle()
            await self._judge()
        except (TowpathError, TimeoutError) as error:
            self._reasons.append(f"the drill got stuck: {error or 'no answer'}")
            self.broken = True
        finally:
            await device.cancel()
        return CellReport(
            strategy=self.cell.strategy,
            step=self.cell.step,
            fault=self.cell.fault,
            actor=self.cell.actor,
            job=self.job.name,
            output_site=self.job.observed.view.output.site,
            seconds=round(time.monotonic() - begun, 1),
            reasons=self._reasons,
            **self._known,
        )

    async def _migrate(self) -> None:
        """Move the job, and let the fault happen. Return when results flow again and the move is over."""
        job, cell = self.job, self.cell
        source, target = job.site, job.elsewhere
        victim = Victim(job.stage, cell.actor, source, target)
        self._victim = victim.name
        async with listening(job.stage, job.name, cell.step) as cues:
            fault = asyncio.create_task(FAULTS[cell.fault](job.stage, victim, cues), name=cell.name)
            recovery = asyncio.create_task(self._recover(fault), name=f"recovery of {cell.name}")
            try:
                operation = await self._accepted(target)
                await self._ended(operation, cues, fault)
                await recovery
            finally:
                await end([fault, recovery])
        await self._take_in(operation)

    async def _accepted(self, target: str) -> str:
        command = MigrateJob(job=self.job.name, to=target, strategy=self.cell.strategy, wait=False)
        answer = await self.job.stage.bus.request(command, deadline_s=ACCEPT_S, attempt_s=3)
        return answer.operation

    async def _ended(self, operation: str, cues: Cues, fault: asyncio.Task[float]) -> None:
        """Wait until the migration has ended and the fault is over."""
        end_at = time.monotonic() + END_S
        while time.monotonic() < end_at:
            view = await self._shown(operation)
            if view is not None and view.state in ENDED:
                if not cues.begun.is_set():
                    self._reasons.append(f"the step {self.cell.step} did not begin")
                    fault.cancel()
                await asyncio.wait({fault}, timeout=FAULT_S)
                if not fault.done():
                    self._reasons.append(f"the fault did not come about within {FAULT_S:g} s")
                    fault.cancel()
                return
            await asyncio.sleep(0.3)
        self._reasons.append(f"the migration did not end within {END_S:g} s")
        self.broken = True
        fault.cancel()

    async def _shown(self, operation: str) -> OperationView | None:
        try:
            return await self.job.stage.bus.request(
                ShowOperation(operation=operation), deadline_s=3, attempt_s=1.5
            )
        except TowpathError:
            return None

    async def _recover(self, fault: asyncio.Task[float]) -> None:
        await asyncio.wait({fault})
        if fault.cancelled():
            return
        # If the fault itself failed, this raises: the cell says nothing then.
        watched_s = self.recovered_within_s + WATCH_RECOVERY_S
        seconds = await self.job.observed.recovered_after(fault.result(), watched_s)
        self._known["recovery_s"] = None if seconds is None else round(seconds, 1)
        if seconds is None or seconds > self.recovered_within_s:
            took = f"not within {watched_s:g} s" if seconds is None else f"only after {seconds:.1f} s"
            self._reasons.append(f"results flowed again {took}")

    async def _take_in(self, operation: str) -> None:
        """Note the outcome of the migration."""
        view = await self._shown(operation)
        if view is None:
            self._reasons.append("the coordinator does not tell how the migration ended")
            return
        self._known |= {"state": view.state, "note": view.note, "steps_s": _steps_s(view)}
        if view.ended_at is not None:
            self._known["total_s"] = round((view.ended_at - view.begun_at).total_seconds(), 2)
        if view.state not in ENDED_WELL:
            self._reasons.append(f"the migration ended as {view.state}: {view.note}")

    async def _settle(self) -> None:
        try:
            view = await self.job.stage.until_settled(self.job.name, SETTLE_S)
        except TowpathError as error:
            if error.detail.code is not ErrorCode.DEADLINE:
                raise
            self._reasons.append(error.detail.message)
            self.broken = True
            return
        assert view is not None
        completed = self._known.get("state") is OperationState.COMPLETED
        if view.site != (self.job.elsewhere if completed else self.job.site):
            self._reasons.append(
                f"the migration is {self._known.get('state')}, and the job is at {view.site}"
            )
        self.job.site = view.site

    async def _judge(self) -> None:
        if not await self.job.observed.drained(DRAIN_S, quiet_s=DRAIN_S):
            self._reasons.append("not all results came")
        await asyncio.sleep(SURPLUS_S)
        verdict = await self.job.observed.verdict(in_order=True)
        self._known |= findings(verdict)
        if self._intake_is_full:
            self._known["unstored"] = self.job.give_up_unstored()
        self._reasons += [*_faults(verdict), *self.job.input_faults()]

    @property
    def _intake_is_full(self) -> bool:
        """True if the full disk is that of the server that takes the events in.

        For a moment it acknowledges events that it can no longer write. They never were in the job's input,
        so no strategy can lose them.
        """
        return self.cell.fault is FaultName.DISK_FULL and self._victim == f"{INPUT_SITE}-nats"


def _steps_s(view: OperationView) -> dict[str, float]:
    """Return the seconds of each step from its beginning until it was confirmed or had failed."""
    return {
        attempt.first.step: round(attempt.took_s, 2)
        for attempt in attempts(view.journal)
        if attempt.took_s is not None and not attempt.undoing
    }


def _faults(verdict: Verdict) -> list[str]:
    """Return the faults of the results, each with an example."""
    counts = {name: getattr(verdict, name) for name in JUDGED}
    return [
        f"{count} results {name.replace('_', ' ')}, e.g. {'; '.join(verdict.examples.get(name, ['?'])[:2])}"
        for name, count in counts.items()
        if count
    ]
