"""A double of a coordinator's situation: registry, sites, bus, operations and user code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from towpath.composition.adjustments import complete
from towpath.contracts.commands import OperationAnswer, OperationKind, OperationState
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.message import Command, Event
from towpath.contracts.operators import Python
from towpath.contracts.pipeline import (
    Action,
    ChangeState,
    PipelineJob,
    PipelineSpec,
    PipelineVersion,
    PlannedChange,
)
from towpath.contracts.site import Capability, Capacity, SiteState, SiteStatus
from towpath.contracts.site_commands import TryCode
from towpath.contracts.standby import KeepStandby, StandbyKept
from towpath.coordinator.jobs.plans import new_entry
from towpath.coordinator.jobs.topics import resolve_inputs
from towpath.coordinator.pipelines.apply_run import ApplyRun
from towpath.coordinator.pipelines.records import ApplyRecord, ChangeRecord, PipelineRecord
from towpath.coordinator.situation import Situation
from towpath.protocols.record import FormerJob, JobEntry, OperationRecord

WAITING = ChangeState.WAITING


def _brings_code(spec: JobSpec) -> bool:
    return isinstance(spec.operator, Python) and spec.operator.artefact is not None


def job(name: str, reads: str = "site/raw", writes: str | None = None) -> PipelineJob:
    return PipelineJob.model_validate(
        {
            "name": name,
            "site": "jfk",
            "inputs": [{"site": "jfk", "topic": reads}],
            "output": {"topic": writes or f"out/{name}"},
            "operator": {"kind": "forward"},
        }
    )


def entry(
    wanted: PipelineJob, jobs: Mapping[str, JobEntry] | None = None, pipeline: str | None = "delays"
) -> JobEntry:
    """A job that was deployed when there were these `jobs`."""
    spec = complete(wanted.job_spec())
    return new_entry(spec, None, resolve_inputs(spec, jobs or {}), pipeline)


def apply_record(spec: PipelineSpec, *, purge: bool = False, order: Sequence[str] = ()) -> ApplyRecord:
    begun_at = datetime(2026, 1, 1, tzinfo=UTC)
    return ApplyRecord(
        id="a1", command="c1", version=1, spec=spec, purge=purge, order=[*order], begun_at=begun_at
    )


@dataclass
class Played:
    """The registry, the sites, the bus and the operations of a coordinator."""

    entries: dict[str, JobEntry] = field(default_factory=dict)
    left: dict[str, FormerJob] = field(default_factory=dict)
    accepted: set[str] = field(default_factory=set)
    """Commands that became operations."""
    failures: list[TowpathError] = field(default_factory=list)
    """Errors of the next attempts to execute a command."""
    unreachable: bool = False
    unreachable_for: set[str] = field(default_factory=set)
    """Jobs whose output site does not answer."""
    refuses: set[type[Command[Any]]] = field(default_factory=set)
    """Kinds of commands that fail."""
    uncallable: set[str] = field(default_factory=set)
    """Entries that sites cannot import."""
    can_try: bool = True
    ended: dict[str, ChangeRecord] = field(default_factory=dict)
    """Records of the ended changes of the last apply."""
    planned: list[OperationRecord] = field(default_factory=list)
    requested: list[Command[Any]] = field(default_factory=list)

    names: tuple[str, ...] = ("jfk",)
    lying: dict[str, str] = field(default_factory=dict)
    """Path of user code → digest of the code there now."""
    newest: ApplyRecord | None = None
    begun: list[ApplyRecord] = field(default_factory=list)
    """Applies that were accepted."""

    async def latest(self, limit: int) -> list[OperationRecord]:
        return []

    async def pipelines(self) -> dict[str, PipelineRecord]:
        return {"delays": PipelineRecord(name="delays", version=1, apply="a1")}

    async def pipeline(self, name: str) -> PipelineRecord:
        return (await self.pipelines())[name]

    async def versions(self, name: str) -> dict[int, PipelineVersion]:
        return {}

    async def apply_of(self, command: str) -> str | None:
        return None

    async def begin(self, record: ApplyRecord, *_: Any) -> str:
        self.begun.append(record)
        return record.id

    async def follow(self, apply: str, *, wait: bool) -> str:
        return apply

    async def record(self, apply: str) -> ApplyRecord:
        return self.newest or apply_record(pipeline())

    async def jobs(self) -> dict[str, JobEntry]:
        return self.entries

    async def call(self, method: str, key: str) -> dict[str, str]:
        """Return a hash of the registry: there are no uplinks."""
        return {}

    async def former(self, name: str) -> FormerJob | None:
        return self.left.get(name)

    async def locks(self) -> dict[str, str]:
        return {}

    async def operation_of(self, command: str) -> str | None:
        return command if command in self.accepted else None

    async def check_up(self, site: str, field: str) -> None: ...

    def check_known(self, site: str, field: str) -> None: ...

    unable: set[str] = field(default_factory=set)
    """Sites whose agents are of a version that could do less."""

    unable_to: set[Capability] = field(default_factory=set)
    """Capabilities that no agent has."""

    async def is_down(self, site: str) -> bool:
        return site in self.down

    def can(self, site: str, capability: Capability) -> bool:
        return site not in self.unable and capability not in self.unable_to

    def check_can(self, site: str, capability: Capability, field: str) -> None:
        if site in self.unable:
            raise TowpathError(ErrorCode.NOT_ALLOWED, f"cannot: {capability}", field=field, value=site)

    def job(self, site: str, name: str) -> None: ...

    def heard(self) -> list[SiteStatus]:
        return []

    def capacity(self, site: str) -> Capacity:
        return Capacity()

    down: set[str] = field(default_factory=set)
    """Sites that are down."""
    silence_s: float = 0.0
    """Since the last heartbeat of each."""

    def state(self, site: str) -> SiteState:
        return SiteState.DOWN if site in self.down else SiteState.UP

    def silent_s(self, site: str) -> float:
        return self.silence_s

    async def stored(self, spec: JobSpec) -> str | None:
        return self.lying[str(spec.operator.artefact)] if _brings_code(spec) else None

    tried = stored

    def lies(self, spec: JobSpec) -> bool:
        return _brings_code(spec) and spec.operator.artefact in self.lying  # type: ignore[union-attr]

    async def check_kept(self, digest: str) -> None: ...

    async def save_change(self, apply: str, change: ChangeRecord) -> None: ...

    async def publish(self, event: Event) -> None: ...

    has_output: bool = True
    """A standby has a copy of its job's output."""

    async def request(self, command: Command[Any], *, deadline_s: float, attempt_s: float) -> Any:
        self.requested.append(command)
        if isinstance(command, KeepStandby):
            return StandbyKept(has_output=self.has_output)
        if isinstance(command, TryCode) and command.entry in self.uncallable:
            raise TowpathError(ErrorCode.INVALID, "does not import", field="operator.entry")
        if self.unreachable or getattr(command, "job", None) in self.unreachable_for:
            raise TowpathError(ErrorCode.UNREACHABLE, "no one answers")

    async def accept(
        self, command: Command[Any], job: str, plan: Callable[[], Awaitable[OperationRecord]], *, wait: bool
    ) -> OperationAnswer:
        if self.failures:
            raise self.failures.pop(0)
        if type(command) in self.refuses:
            raise TowpathError(ErrorCode.FAILED, "rolled back")
        self.planned.append(await plan())
        return OperationAnswer(
            operation="o1", job=job, kind=OperationKind.UPDATE, state=OperationState.COMPLETED
        )

    @property
    def situation(self) -> Situation:
        played = cast("Any", self)
        return Situation(played, played, played, played)

    async def carry_out(
        self,
        spec: PipelineSpec,
        *changes: tuple[PlannedChange, ChangeState],
        purge: bool = False,
        artefacts: Mapping[str, str] | None = None,
    ) -> dict[str, ChangeState]:
        """Run an apply that may have begun before. Return the last states of its changes."""
        record = apply_record(spec, purge=purge, order=[change.job for change, _ in changes])
        record = record.model_copy(update={"artefacts": artefacts or {}})
        begun = {change.job: ChangeRecord(change=change, state=state) for change, state in changes}
        played = cast("Any", self)
        run = ApplyRun(record, begun, self.situation, played, played, self.publish)
        await run.run()
        self.ended = run.changes
        return {name: change.state for name, change in run.changes.items()}


def pipeline(*jobs: PipelineJob) -> PipelineSpec:
    return PipelineSpec(name="delays", jobs=list(jobs))


def planned(name: str, *actions: Action) -> PlannedChange:
    return PlannedChange(job=name, actions=list(actions), reason="because")
