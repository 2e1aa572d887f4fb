"""One operation on a simulated mesh, with faults at chosen messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from simulation import SimulatedClock, SimulatedMesh
from simulation.memory_ledger import MemoryLedger
from towpath.contracts.commands import OperationKind, OperationState, StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec, ResolvedInput, ResolvedOutput
from towpath.contracts.message import Event, Model
from towpath.contracts.migration import SiteCommand, StepCommand
from towpath.contracts.operators import ProcessingWindow
from towpath.contracts.site_commands import StartJob
from towpath.coordinator.reconciliation import SiteDifference, corrections
from towpath.protocols.record import JobEntry, OperationRecord
from towpath.protocols.runner import Runner
from towpath.protocols.table import strategies, table_of

JOB = "hourly-jfk"
SPEC = JobSpec.model_validate(EXAMPLE_SPEC)
WINDOWS: dict[str, Any] = {
    "operator": ProcessingWindow.model_validate(
        {"size_s": 1.0, "aggregates": {"departures": {"function": "count"}}}
    )
}
"""A job with windows by processing time, which `parallel` moves."""


class Killed(BaseException):
    """SIGKILL: nothing after it runs."""


def entry(site: str = "jfk", epoch: int = 1, generation: int = 1, **spec: Any) -> JobEntry:
    return JobEntry(
        spec=SPEC.model_copy(update=spec),
        site=site,
        epoch=epoch,
        generation=generation,
        inputs=[
            ResolvedInput(name="jfk/clean", site="jfk", stream="OUT_clean", subject=None, from_device=False)
        ],
        output=ResolvedOutput(
            site="out", stream="OUT_hourly-jfk", topic="departures/hourly", rejected_topic="rejected"
        ),
    )


def redirected(job: JobEntry) -> JobEntry:
    """The job with another output stream."""
    output = job.output.model_copy(update={"stream": f"{job.output.stream}_1", "topic": "elsewhere"})
    return job.model_copy(update={"output": output, "closed": [job.output]})


def operation(name: str) -> OperationRecord:
    old = entry()
    fields: dict[str, Any] = {
        "general": {"kind": "migrate", "before": old, "after": entry(site="cloud", epoch=2)},
        "restart": {"kind": "migrate", "before": old, "after": entry(site="cloud", epoch=2, generation=2)},
        "parallel": {
            "kind": "migrate",
            "before": entry(**WINDOWS),
            "after": entry(site="cloud", epoch=3, generation=2, **WINDOWS),
        },
        "handover": {"kind": "migrate", "before": old, "after": entry(site="cloud", epoch=3)},
        "twin": {"kind": "migrate", "before": old, "after": entry(site="cloud", epoch=3), "hold_s": 0},
        "fail-over": {"kind": "fail-over", "before": old, "after": entry(site="cloud", epoch=2)},
        "fail-over-to-new-output": {
            "kind": "fail-over",
            "before": old,
            "after": redirected(entry(site="cloud", epoch=2)),
        },
        "fail-over-with-output": {
            "kind": "fail-over",
            "before": old.model_copy(update={"output": old.output.at("jfk")}),
            "after": entry(site="cloud", epoch=2).model_copy(update={"output": old.output.at("cloud")}),
        },
        "deploy": {"kind": "deploy", "after": old, "output_existed": False},
        "redeploy": {"kind": "deploy", "after": old.at_epoch(2), "output_existed": True},
        "update": {"kind": "update", "before": old, "after": entry(epoch=2, trigger_s=3.0)},
        "update-without-state": {"kind": "update", "before": old, "after": entry(epoch=2, generation=2)},
        "redirect": {"kind": "update", "before": old, "after": redirected(entry(epoch=2))},
        "redirect-from-lost": {
            "kind": "update",
            "before": old,
            "after": redirected(entry(epoch=2)),
            "output_lost": True,
        },
        "redirect-inputs": {
            "kind": "update",
            "before": old,
            "after": redirected(entry(epoch=2, generation=2)),
            "keeps_state": True,
        },
        "remove": {"kind": "remove", "before": old},
        "remove-drained": {"kind": "remove", "before": old, "drain": True},
        "remove-and-purge": {"kind": "remove", "before": old, "purge": True},
    }[name]
    epoch = 0 if name == "deploy" else 1
    strategy = StrategyName(name) if fields["kind"] == "migrate" else None
    new_epoch = epoch + (2 if strategy and strategies()[strategy].interim_epoch else 1)
    return OperationRecord(
        id="5f0c9a7be210", command="c1", job=JOB, strategy=strategy, old_epoch=epoch, new_epoch=new_epoch,
        begun_at=SimulatedClock().now(), **fields,
    )  # fmt: skip


OPERATIONS = (
    "general", "restart", "parallel", "handover", "twin", "deploy", "redeploy", "update",
    "update-without-state", "redirect", "redirect-from-lost", "redirect-inputs", "remove", "remove-drained",
    "remove-and-purge", "fail-over", "fail-over-to-new-output",
    "fail-over-with-output",
)  # fmt: skip
EVERY_STEP = [(name, step.name) for name in OPERATIONS for step in table_of(operation(name)).steps]


@dataclass
class Trial:
    """One operation on a simulated mesh, with faults at chosen messages."""

    name: str | OperationRecord
    """Of `operation`; or the operation itself."""
    clock: SimulatedClock = field(default_factory=SimulatedClock)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    events: list[Event] = field(default_factory=list)
    sent: list[StepCommand[Any]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    """Command ids that are refused."""
    unheard: set[str] = field(default_factory=set)
    """Ids of commands that do not arrive."""
    unanswered: set[str] = field(default_factory=set)
    """Ids of commands that are executed, but whose answers are lost."""
    dead: set[str] = field(default_factory=set)
    killed_at: set[str] = field(default_factory=set)
    """Moments at which the coordinator is killed, once each."""

    def __post_init__(self) -> None:
        self.record = operation(self.name) if isinstance(self.name, str) else self.name
        self.mesh = SimulatedMesh(self.clock, "jfk", "cloud", "out")
        self.ledger.around = self.moment
        before = self.record.before
        if before is not None:
            self.ledger.jobs[JOB] = before
            self.mesh.sites["jfk"].handle(start(before))
        if self.record.kind is not OperationKind.DEPLOY or self.record.output_existed:
            self.mesh.accept(JOB, 1, entry().output, owner=entry().site)
        self.mesh.work(10)
        if before is not None and self.record.kind is OperationKind.FAIL_OVER:
            jfk, owner = self.mesh.sites["jfk"], before.assignment()
            at = jfk.checkpoints[JOB, before.generation]
            self.mesh.sites["cloud"].keep_copy(owner, at, self.clock.now())
            self.mesh.work(10)
        self.ledger.accept(self.record)

    def moment(self, moment: str) -> None:
        if moment in self.killed_at:
            self.killed_at.remove(moment)
            raise Killed(moment)

    async def send(self, command: StepCommand[Any], *, deadline_s: float, attempt_s: float) -> Model:
        self.sent.append(command)
        self.mesh.work()
        self.mesh.check(JOB)
        if self.is_over(command):
            answer = self.mesh.handle(command)
            self.mesh.check(JOB)
            return answer
        if command.id in self.refused:
            raise TowpathError(ErrorCode.FAILED, "refused")
        if command.id in self.unheard or (isinstance(command, SiteCommand) and command.site in self.dead):
            self.clock.elapsed_s += deadline_s
            raise TowpathError(ErrorCode.UNREACHABLE, "no one answers")
        answer = self.mesh.handle(command)
        self.mesh.check(JOB)
        self.moment(f"carried out {command.id}")
        if command.id in self.unanswered:
            self.clock.elapsed_s += deadline_s
            raise TowpathError(ErrorCode.DEADLINE, "no answer in time")
        return answer

    def is_over(self, command: StepCommand[Any]) -> bool:
        """Faults of a step that is tried without end are finite: they last for three attempts."""
        name = command.id.removeprefix(f"{self.record.id}-")
        endless = any(step.name == name and step.endless for step in table_of(self.record).steps)
        return endless and [sent.id for sent in self.sent].count(command.id) > 3

    async def publish(self, event: Event) -> None:
        self.events.append(event)

    async def finish(self) -> OperationRecord:
        """Run the operation, with a new coordinator after each death."""
        for _ in range(20):
            runner = Runner(self.ledger, self.send, self.publish, self.clock)
            try:
                return await runner.run(self.record.id)
            except Killed:
                continue
        raise AssertionError("it never ends")

    def check_end(self, record: OperationRecord) -> None:
        """Check that the job runs where the registry says, publishes alone, and counts every event once."""
        assert JOB not in self.ledger.locks
        assert record.id not in self.ledger.unannounced
        self.mesh.work()
        owner = self.ledger.jobs.get(JOB)
        if owner is not None and (record.kind is OperationKind.FAIL_OVER or record.output_lost):
            self.lost_site_returns(owner)
        self.mesh.settle_down()
        self.mesh.check(JOB)
        if owner is None:
            assert self.mesh.owners(JOB) == []
            return
        assert self.mesh.owners(JOB) == [owner.site]
        hosted = self.mesh.sites[owner.site].hosted[JOB].assignment
        assert (hosted.epoch, hosted.generation) == (owner.epoch, owner.generation)
        assert self.mesh.outputs[JOB].accepted == owner.epoch
        self.mesh.check_complete(JOB)

    def lost_site_returns(self, job: JobEntry) -> None:
        """Let the coordinator correct the site that the operation could not ask."""
        what = "behind" if job.site == "jfk" else "elsewhere"
        for command in corrections(SiteDifference("jfk", JOB, what), job, None):
            self.mesh.handle(command)


def start(job: JobEntry) -> StartJob:
    return StartJob(id="before", site=job.site, operation="before", assignment=job.assignment())


def succeeded(record: OperationRecord) -> bool:
    return record.state is OperationState.COMPLETED
