"""Random schedules of deaths, losses, repetitions and late messages: the invariants hold at every moment."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from simulation import SimulatedClock, SimulatedMesh
from simulation.memory_ledger import MemoryLedger
from simulation.mesh import MONITOR
from towpath.contracts.commands import OperationKind, OperationState, StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec, ResolvedInput, ResolvedOutput, Standby
from towpath.contracts.message import Event, Model
from towpath.contracts.migration import SiteCommand, StepCommand
from towpath.contracts.site import SiteState, SiteStatus
from towpath.contracts.site_commands import StartJob
from towpath.coordinator.overtaken import overtaken
from towpath.coordinator.reconciliation import SiteDifference, corrections, differences
from towpath.protocols.record import JobEntry, OperationRecord
from towpath.protocols.runner import Runner

JOB = "hourly-jfk"
OUTPUT = ResolvedOutput(site="out", stream=f"OUT_{JOB}", topic="hourly", rejected_topic="rejected")
BEFORE = JobEntry(
    spec=JobSpec.model_validate(EXAMPLE_SPEC),
    site="jfk",
    epoch=1,
    inputs=[ResolvedInput(name="jfk/clean", site="jfk", stream="OUT_clean", subject=None, from_device=False)],
    output=OUTPUT,
)
WINDOWS = JobSpec.model_validate(
    {
        **EXAMPLE_SPEC,
        "operator": {
            "kind": "processing_window",
            "size_s": 1.0,
            "aggregates": {"departures": {"function": "count"}},
        },
    }
)
"""A job with windows by processing time, which `parallel` moves."""

AFTER: dict[str, dict[str, Any]] = {
    "general": {"site": "cloud", "epoch": 2},
    "restart": {"site": "cloud", "epoch": 2, "generation": 2},
    "update": {"epoch": 2, "generation": 2},
    "adjust": {"revision": 1},
    "handover": {"site": "cloud", "epoch": 3},
    "parallel": {"site": "cloud", "epoch": 3, "generation": 2},
    "fail-over": {"site": "cloud", "epoch": 2},
    "fail-over-with-output": {"site": "cloud", "epoch": 2, "output": OUTPUT.at("cloud")},
}

KINDS = {
    "update": OperationKind.UPDATE,
    "adjust": OperationKind.UPDATE,
    "fail-over": OperationKind.FAIL_OVER,
    "fail-over-with-output": OperationKind.FAIL_OVER,
}
"""Operations that are no migrations."""

FAULTS = (
    "none", "none", "none", "lose request", "lose answer", "repeat", "repeat late", "refuse", "agent dies",
    "kill before", "kill after",
)  # fmt: skip
MOMENTS = ("none", "none", "none", "none", "kill")


class Killed(BaseException):
    """Raised for SIGKILL of the coordinator."""


def entry_before(name: str) -> JobEntry:
    saved = BEFORE.model_copy(
        update={"spec": BEFORE.spec.model_copy(update={"standby": Standby(site="cloud")})}
    )
    specs = {
        "parallel": BEFORE.model_copy(update={"spec": WINDOWS}),
        "fail-over": saved,
        "fail-over-with-output": saved.model_copy(update={"output": OUTPUT.at("jfk")}),
    }
    return specs.get(name, BEFORE)


def operation(name: str) -> OperationRecord:
    before = entry_before(name)
    after = before.model_copy(update=AFTER[name])
    return OperationRecord(
        id="5f0c9a7be210",
        command="c1",
        kind=KINDS.get(name, OperationKind.MIGRATE),
        job=JOB,
        strategy=None if name in KINDS else StrategyName(name),
        before=before,
        after=after,
        old_epoch=1,
        new_epoch=after.epoch,
        begun_at=SimulatedClock().now(),
    )


class Schedule:
    """A mesh with a list of faults, one per message. When the list is used up, no more faults occur."""

    def __init__(self, name: str, faults: list[str], moments: list[str]) -> None:
        before = entry_before(name)
        self.clock = SimulatedClock()
        self.mesh = SimulatedMesh(self.clock, "jfk", "cloud", "out")
        self.ledger = MemoryLedger(around=self.moment, jobs={JOB: before})
        self.faults, self.moments = list(reversed(faults)), list(reversed(moments))
        self.late: list[StepCommand[Any]] = []
        self.mesh.accept(JOB, 1, OUTPUT, owner="jfk")
        self.mesh.sites["jfk"].handle(
            StartJob(id="s0", site="jfk", operation="o0", assignment=before.assignment())
        )
        self.mesh.work(5)
        if KINDS.get(name) is OperationKind.FAIL_OVER:
            # Its site is cut off: it works on, and no command reaches it.
            at = self.mesh.sites["jfk"].checkpoints[JOB, before.generation]
            self.mesh.sites["cloud"].keep_copy(before.assignment(), at, self.clock.now())
            self.mesh.work(5)
        self.record = operation(name)
        self.ledger.accept(self.record)

    def moment(self, moment: str) -> None:
        if self.moments and self.moments.pop() == "kill":
            raise Killed(moment)

    def deliver(self, command: StepCommand[Any]) -> Model:
        try:
            return self.mesh.handle(command)
        finally:
            self.mesh.check(JOB)
            self.mesh.work()
            self.mesh.check(JOB)

    def deliver_late(self) -> None:
        for command in self.late:
            try:
                self.deliver(command)
            except TowpathError:
                continue
        self.late.clear()

    async def send(self, command: StepCommand[Any], *, deadline_s: float, attempt_s: float) -> Model:
        fault = self.faults.pop() if self.faults else "none"
        if fault == "kill before":
            raise Killed(command.id)
        if fault == "refuse":
            raise TowpathError(ErrorCode.FAILED, "refused")
        if fault == "lose request":
            self.late.append(command)
            self.clock.elapsed_s += deadline_s
            raise TowpathError(ErrorCode.DEADLINE, "no answer")
        if fault == "agent dies":
            self.mesh.lose_memory(command.site if isinstance(command, SiteCommand) else MONITOR)
        answer = self.deliver(command)
        if fault == "kill after":
            raise Killed(command.id)
        if fault == "lose answer":
            self.clock.elapsed_s += deadline_s
            raise TowpathError(ErrorCode.DEADLINE, "no answer")
        if fault == "repeat":
            answer = self.deliver(command)
        if fault == "repeat late":
            self.late.append(command)
        elif self.late:
            self.deliver_late()
        return answer

    async def publish(self, event: Event) -> None:
        """Drop the event: no one subscribes."""

    async def run(self) -> OperationRecord:
        while True:
            try:
                runner = Runner(self.ledger, self.send, self.publish, self.clock)
                return await runner.run(self.record.id)
            except Killed:
                continue

    def reconcile(self) -> None:
        """Correct sites as the coordinator does until heartbeats agree with the registry."""
        found: set[SiteDifference] = set()
        for _ in range(5):
            statuses = [self.heartbeat(name) for name in self.mesh.sites]
            found = differences(self.ledger.jobs, statuses)
            assert overtaken(JOB, self.ledger.jobs.get(JOB), None, statuses) is None
            self.mesh.settle_down()
            for difference in found:
                for command in corrections(difference, self.ledger.jobs.get(JOB), None):
                    self.deliver(command)
            if not found:
                return
        raise AssertionError(f"still different: {found}")

    def heartbeat(self, site: str) -> SiteStatus:
        jobs = self.mesh.sites[site].status()
        return SiteStatus(site=site, state=SiteState.UP, nats_url="", mqtt_host="", mqtt_port=0, jobs=jobs)


@given(
    name=st.sampled_from(sorted(AFTER)),
    faults=st.lists(st.sampled_from(FAULTS), max_size=25),
    moments=st.lists(st.sampled_from(MOMENTS), max_size=60),
)
@example(name="adjust", faults=["none", "lose request"], moments=[])
def test_operation_when_anything_fails_at_random_then_one_owner_and_every_event_once(
    name: str, faults: list[str], moments: list[str]
) -> None:
    schedule = Schedule(name, faults, moments)
    record = asyncio.run(schedule.run())
    assert record.state in (
        OperationState.COMPLETED,
        OperationState.ROLLED_BACK,
        OperationState.NEEDS_OPERATOR,
    )
    schedule.deliver_late()
    schedule.reconcile()
    entry, mesh = schedule.ledger.jobs[JOB], schedule.mesh
    mesh.work()
    mesh.settle_down()
    mesh.check(JOB)
    assert mesh.owners(JOB) == [entry.site]
    assert mesh.outputs[JOB].accepted == entry.epoch
    mesh.check_complete(JOB)
