"""Durable records: the registry's entry of a job, and the record of an operation."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from towpath.contracts.commands import (
    ConsistencyCheck,
    MigrationFigures,
    MigrationForecast,
    OperationAnswer,
    OperationKind,
    OperationState,
    StrategyName,
)
from towpath.contracts.job import (
    Assignment,
    Derivation,
    DesiredState,
    JobSpec,
    ResolvedInput,
    ResolvedOutput,
    Version,
)
from towpath.contracts.message import AskedBy, Identifier, JobName, Model, SiteName
from towpath.operators.kind import kind_of

ENDED = frozenset({OperationState.COMPLETED, OperationState.ROLLED_BACK, OperationState.NEEDS_OPERATOR})
"""States in which an operation does nothing more and holds no lock."""


class JobEntry(Model):
    """A job in the registry: its owner, and everything an agent must know to run it."""

    spec: JobSpec
    site: SiteName
    """The one owner."""
    epoch: int = Field(ge=0)
    """Invariant: at least the highest epoch the output stream was ever told for this owner."""
    used_epoch: int = 0
    """Highest epoch that any site was ever told for the job, if it is above `epoch`: a migration that was
    rolled back used it up."""
    resumes: int | None = None
    """The epoch under which the owner published last, where `epoch` only takes back a change of hands."""
    generation: int = Field(default=1, ge=1)
    revision: int = Field(default=0, ge=0)
    """Grows with every adjustment, and never falls."""
    adjustments: int = Field(default=0, ge=0)
    """The site's own adjustments that the spec contains. It never falls, either."""
    inputs: list[ResolvedInput]
    output: ResolvedOutput
    artefact: str | None = None
    """Digest of the job's user code, as of its deploy or its last update."""
    closed: list[ResolvedOutput] = []
    """Outputs the job had before it was redirected, the oldest first. They keep their results."""
    pipeline: JobName | None = None
    """The pipeline it belongs to."""
    running: bool = True
    """False while it is being deployed: it may still be withdrawn."""

    @property
    def version(self) -> Version:
        """The version of the job's description."""
        return Version(self.epoch, self.revision, self.adjustments)

    @property
    def output_streams(self) -> set[str]:
        """The names of all streams that hold results of the job."""
        return {output.stream for output in (self.output, *self.closed)}

    def assignment(
        self,
        *,
        desired: DesiredState = DesiredState.RUNNING,
        migration: str | None = None,
        derived: Derivation | None = None,
    ) -> Assignment:
        """Return the entry as an agent gets it."""
        return Assignment(
            derived=derived,
            spec=self.spec,
            epoch=self.epoch,
            generation=self.generation,
            revision=self.revision,
            adjustments=self.adjustments,
            inputs=self.inputs,
            output=self.output,
            artefact=self.artefact,
            desired=desired,
            migration=migration,
        )

    def next_epoch(self, *, interim: bool = False) -> int:
        """Return the next owner's epoch. With `interim`, one epoch before it stays free."""
        return max(self.epoch, self.used_epoch) + (2 if interim else 1)

    def at_epoch(self, epoch: int) -> JobEntry:
        """Return the same job under another epoch."""
        return self.model_copy(update={"epoch": epoch, "resumes": None})

    def after_serials(self, serials: dict[str, int]) -> JobEntry:
        """Return the same job, which begins after these serial numbers (input → serial)."""
        inputs = [
            i.model_copy(update={"after_serial": serials.get(i.name, i.after_serial)}) for i in self.inputs
        ]
        return self.model_copy(update={"inputs": inputs})


class FormerJob(Model):
    """The remains of a removed job: its epoch, because epochs of a name never fall, and kept outputs."""

    epoch: int
    output: ResolvedOutput | None
    """The output stream that was left; null when it was deleted."""
    closed: list[ResolvedOutput] = []
    """The outputs it had before."""


class RegistryChange(Model):
    """A change of the registry by the coordinator. Its values are absolute, so it may be applied twice."""

    job: JobName
    entry: JobEntry | None
    """The job from now on; null removes it."""
    former: FormerJob | None = None
    """The remains of a removed job."""


class OperationRecord(Model):
    """An operation: the decisions made when it was accepted, and the answers to its steps."""

    id: Identifier
    command: Identifier
    """Id of the user's command: a repetition of it finds this operation."""
    asked_by: AskedBy | None = None
    """Who asked for it."""
    kind: OperationKind
    job: JobName
    strategy: str | None = None
    """Name of a migration's strategy, never `auto`."""
    check: ConsistencyCheck = ConsistencyCheck.SERIALS
    factor: int = 0
    """Synchronisation factor S, for the check `results`."""
    hold_s: float | None = None
    """Seconds for which it waits at most for a request to finish it; None: however long that takes."""
    forecast: MigrationForecast | None = None
    purge: bool = False
    state: OperationState = OperationState.RUNNING
    before: JobEntry | None = None
    """The job when the operation was accepted; null for a deploy."""
    after: JobEntry | None = None
    """The job after the operation; null for a remove."""
    old_epoch: int = Field(ge=0)
    new_epoch: int = Field(ge=1)
    progress: dict[str, int] = {}
    """Input → the owner's last processed serial number when a migration was accepted. It only grows."""
    by_site: bool = False
    """The site has made an update itself, and runs the job so."""
    keeps_state: bool = False
    """An update begins a generation whose state comes from the generation before."""
    resumes: dict[str, int] = {}
    """Input → serial number after which an update lets the job go on."""
    output_lost: bool = False
    """The site of the output that an update leaves is down, and is not asked."""
    readers: list[SiteName] = []
    """Sites that answer, of jobs that read the output and of their standbys, when a failover lets it go on
    elsewhere."""
    is_broken: bool = False
    """The job had failed for good when the operation was accepted."""
    forced: bool = False
    """A remove does not ask the job's site, which is out of reach."""
    drain: bool = False
    """A remove lets the job process first what its inputs hold."""
    drain_inputs: list[str] = []
    """Inputs that an update lets the job read to their end, and then no more."""
    output_existed: bool = True
    """The output stream holds earlier results, which a rollback must not delete."""
    begun: tuple[str, ...] = ()
    """Steps that may have had effects, in order."""
    facts: dict[str, dict[str, Any]] = {}
    """Confirmations as they are written: step → the answer of its actor. `Step.fact_in` reads one."""
    begun_at: datetime
    ended_at: datetime | None = None
    note: str = ""
    figures: MigrationFigures | None = None
    traceparent: str | None = None
    """W3C form of the span that asked for it. Every coordinator that works on the operation adds to it."""

    @property
    def source(self) -> str | None:
        """The site that owned the job when the operation began."""
        return self.before.site if self.before else None

    @property
    def target(self) -> str | None:
        """The site that will own the job."""
        return self.after.site if self.after else None

    @property
    def strategy_name(self) -> StrategyName | None:
        """Its strategy as messages name it."""
        return StrategyName(self.strategy) if self.strategy else None

    @property
    def entry_before(self) -> JobEntry:
        """`before` of an operation that has one: every kind but deploy."""
        assert self.before is not None, f"{self.kind} has no job before it"
        return self.before

    @property
    def entry_after(self) -> JobEntry:
        """`after` of an operation that has one: every kind but remove."""
        assert self.after is not None, f"{self.kind} has no job after it"
        return self.after

    @property
    def is_redirect(self) -> bool:
        """True if the results go into another stream afterwards."""
        return self.before is not None and self.entry_after.output != self.before.output

    @property
    def promotes_output(self) -> bool:
        """True if the output outlives its site: the same stream goes on at another one."""
        return self.is_redirect and self.entry_after.output.stream == self.entry_before.output.stream

    @property
    def is_adjustment(self) -> bool:
        """True if the running job is told other settings."""
        if self.before is None or self.by_site:
            return False
        return self.entry_after.revision > self.before.revision

    @property
    def interim_epoch(self) -> int:
        """The epoch between the old owner's and the new owner's."""
        return self.new_epoch - 1

    @property
    def window_s(self) -> float:
        """Seconds between two results of the job, as far as its spec says."""
        spec = self.entry_after.spec
        return kind_of(spec.operator).batch_s(spec.operator) or max(spec.trigger_s, 1.0)

    def answer(self) -> OperationAnswer:
        """Return the operation as a command's answer."""
        return OperationAnswer(
            operation=self.id, job=self.job, kind=self.kind, state=self.state, note=self.note
        )
