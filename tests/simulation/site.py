"""A site's agent with its engine. It does what `contracts/PROTOCOL.md` says an agent must do, and no more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from simulation.output import Result, fenced
from simulation.weakness import Violation, Weakness
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState, JobSpec, JobState, JobStatus
from towpath.contracts.message import Model
from towpath.contracts.migration import (
    RECONCILIATION,
    AssignRole,
    DropShadow,
    Launched,
    LaunchRetrieve,
    ObserveProgress,
    OpenShadow,
    Paused,
    PauseTransfer,
    ResetRole,
    Resumed,
    ResumeJob,
    SetEpoch,
    ShadowOpened,
    ShipCheckpoint,
    Shipped,
    SiteCommand,
)
from towpath.contracts.operators import ProcessingWindow
from towpath.contracts.reply import Done
from towpath.contracts.site_commands import (
    CheckSpec,
    CloseOutput,
    DropOutput,
    PrepareOutput,
    ReportAssignment,
    ReportProgress,
    StartJob,
    StopJob,
    TryCode,
)
from towpath.contracts.standby import KeepStandby, PromoteOutput, StandbyCopy, StandbyKept, TakeOver
from towpath.streams.ownership import epoch_is_over

if TYPE_CHECKING:
    from simulation.mesh import SimulatedMesh

REJECTED_EVERY = 5
"""The job rejects every event whose number is a multiple of this."""


@dataclass(frozen=True)
class Hosted:
    """A job at a site: what the agent has on disk."""

    assignment: Assignment
    running: bool
    restored: str | None = None
    """Digest of the state that was put in place for this assignment."""
    awaits_state: bool = False
    """Held until its state, or a serial number to begin after, is there."""
    is_first_batch: bool = True
    """True if the next micro-batch is the first since the job started here."""
    is_fenced: bool = False
    """True if the output has accepted a later epoch: the job does not try again."""

    def at(self, epoch: int, *, running: bool) -> Hosted:
        """Return the job under another epoch, running or held."""
        desired = DesiredState.RUNNING if running else DesiredState.HELD
        assignment = self.assignment.model_copy(update={"epoch": epoch, "desired": desired})
        return replace(self, assignment=assignment, running=running, is_first_batch=True, is_fenced=False)

    @property
    def has_windows(self) -> bool:
        """True if results depend on how the input is cut, and no state is kept between them."""
        return isinstance(self.assignment.spec.operator, ProcessingWindow)


@dataclass
class SimulatedSite:
    """An agent with its engine. Everything but `roles` is on disk."""

    name: str
    mesh: SimulatedMesh
    hosted: dict[str, Hosted] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    """Job → operation in which this site plays a part."""
    checkpoints: dict[tuple[str, int], int] = field(default_factory=dict)
    """Job and generation → last serial covered."""
    planned: dict[tuple[str, int], int] = field(default_factory=dict)
    """Job and generation → last serial of a micro-batch that began and was not committed. It is part of the
    checkpoint, so that the micro-batch is repeated as it was."""

    def copy(self, mesh: SimulatedMesh) -> SimulatedSite:
        """The same site in another mesh."""
        return replace(
            self,
            mesh=mesh,
            hosted=dict(self.hosted),
            roles=dict(self.roles),
            checkpoints=dict(self.checkpoints),
            planned=dict(self.planned),
        )

    def handle(self, command: SiteCommand[Any]) -> Model:
        """Execute a command; the agent remembers no earlier answer. Raises `TowpathError`."""
        return getattr(self, "_on_" + command.verb().replace("-", "_"))(command)

    def lose_memory(self) -> None:
        """Restart the agent: what is on disk stays, and each job begins a new run."""
        for job, hosted in self.hosted.items():
            self.hosted[job] = replace(hosted, is_first_batch=True)

    def status(self) -> list[JobStatus]:
        """Return its jobs as a heartbeat reports them."""
        return [
            JobStatus(job=job, **hosted.assignment.version._asdict(), state=self._state(job, hosted))
            for job, hosted in self.hosted.items()
        ]

    def interrupt(self, job: str) -> None:
        """Kill the engine between publishing a micro-batch and committing it, and restart it."""
        self.work(job, commits=False)
        self.hosted[job] = replace(self.hosted[job], is_first_batch=True)

    def work(self, job: str, *, commits: bool = True) -> None:
        """Publish a micro-batch, then commit it. It is committed only if an output took it."""
        hosted = self.hosted[job]
        output = self.mesh.outputs.get(job)
        if not hosted.running or hosted.is_fenced or output is None:
            return
        epoch, begin = hosted.assignment.epoch, self._checkpoint(hosted.assignment)
        if output.is_fenced(epoch):
            self.hosted[job] = replace(hosted, is_fenced=True)
            return
        place = (job, hosted.assignment.generation)
        repeated = None if Weakness.CUT_AGAIN in self.mesh.weak else self.planned.get(place)
        end = repeated or self._newest(begin)
        if end <= begin:
            return
        reads_back = hosted.is_first_batch or Weakness.PUBLISH_BY_MEMORY not in self.mesh.weak
        if hosted.awaits_state and output.accepts(epoch):
            raise Violation(f"{job} runs at {self.name} without its state")
        if output.publish(self.name, epoch, _results(begin, end, hosted.has_windows), reads_back=reads_back):
            if not commits:
                self.planned[place] = end
                return
            self.planned.pop(place, None)
            self.checkpoints[place] = end
            self.hosted[job] = replace(hosted, is_first_batch=False)

    def _newest(self, begin: int) -> int:
        """Return the last serial of a micro-batch that begins now."""
        stored, batch = self.mesh.stored, self.mesh.batch
        return stored if batch is None else min(stored, begin + batch)

    def _state(self, job: str, hosted: Hosted) -> JobState:
        if not hosted.running:
            standby = hosted.assignment.desired is DesiredState.STANDBY
            return JobState.STANDBY if standby else JobState.HELD
        return JobState.RUNNING if self.mesh.may_publish(self.name, job) else JobState.FENCED

    def _hosted(self, job: str) -> Hosted:
        if job not in self.hosted:
            raise TowpathError(ErrorCode.UNKNOWN_JOB, f"{job} is not at {self.name}")
        return self.hosted[job]

    def _with_role(self, job: str, operation: str) -> None:
        if self.roles.get(job) != operation:
            raise TowpathError(ErrorCode.NOT_ALLOWED, "no role in this operation")

    def _on_assign_role(self, command: AssignRole) -> Done:
        self.roles[command.job] = command.operation
        return Done()

    def _on_launch_retrieve(self, command: LaunchRetrieve) -> Launched:
        job, wanted = command.assignment.spec.name, command.assignment
        self._with_role(job, command.operation)
        known = self.hosted.get(job)
        if known is not None and known.assignment.migration != command.operation:
            if known.assignment.epoch >= wanted.epoch:
                raise fenced("an older epoch")
            known = None
        if known is not None and known.running:
            return Launched()
        restored = known.restored if known is not None else None
        self.hosted[job] = Hosted(wanted, running=False, restored=restored, awaits_state=restored is None)
        return Launched()

    def _on_ship_checkpoint(self, command: ShipCheckpoint) -> Shipped:
        self._with_role(command.job, command.operation)
        hosted = self._hosted(command.job)
        at = self._checkpoint(hosted.assignment)
        digest = self.mesh.transfer(command.operation, at, self._planned(hosted.assignment))
        return Shipped(serials=_serials(hosted, at), batch=at, digest=digest, state_bytes=100)

    def _on_pause_transfer(self, command: PauseTransfer) -> Paused:
        self._with_role(command.job, command.operation)
        paused = self._stop(command.job)
        if command.transfer_state:
            planned = self._planned(self._hosted(command.job).assignment)
            digest = self.mesh.transfer(command.operation, next(iter(paused.serials.values())), planned)
            paused = paused.model_copy(update={"digest": digest, "state_bytes": 100})
        return paused

    def _stop(self, job: str) -> Paused:
        hosted = self._hosted(job)
        self.hosted[job] = hosted.at(hosted.assignment.epoch, running=False)
        at = self._checkpoint(hosted.assignment)
        return Paused(serials=_serials(hosted, at), batch=at, last_processed_at=self.mesh.clock.now())

    def _checkpoint(self, assignment: Assignment) -> int:
        """Return the last serial covered; without a checkpoint, where the assignment says to begin."""
        start = assignment.inputs[0].after_serial or 0
        return self.checkpoints.setdefault((assignment.spec.name, assignment.generation), start)

    def _planned(self, assignment: Assignment) -> int | None:
        """Return the last serial of the micro-batch that the checkpoint says to repeat."""
        return self.planned.get((assignment.spec.name, assignment.generation))

    def _on_report_progress(self, command: ReportProgress) -> JobStatus:
        hosted = self._hosted(command.job)
        serials = _serials(hosted, self._checkpoint(hosted.assignment))
        state, epoch = self._state(command.job, hosted), hosted.assignment.epoch
        return JobStatus(job=command.job, epoch=epoch, state=state, serials=serials)

    def _on_report_assignment(self, command: ReportAssignment) -> Assignment:
        return self._hosted(command.job).assignment

    def adjust(self, job: str, spec: JobSpec) -> None:
        """Let someone at the site change the job: it runs on under its epoch."""
        hosted = self._hosted(job)
        changed = {"spec": spec, "adjustments": hosted.assignment.adjustments + 1}
        self.hosted[job] = replace(hosted, assignment=hosted.assignment.model_copy(update=changed))

    def _on_set_epoch(self, command: SetEpoch) -> Done:
        for _ in self.mesh.output(command.job, command.output).set_epoch(command):
            self.mesh.between_lines()
        return Done()

    def _on_open_shadow(self, command: OpenShadow) -> ShadowOpened:
        output = self.mesh.output(command.job, command.output)
        return ShadowOpened(output_serial=output.open(command))

    def _on_drop_shadow(self, command: DropShadow) -> Done:
        if command.job in self.mesh.outputs:
            self.mesh.outputs[command.job].drop_shadow(command.operation)
        return Done()

    def _on_resume(self, command: ResumeJob) -> Resumed:
        hosted = self._hosted(command.job)
        if command.epoch < hosted.assignment.epoch:
            raise fenced("an older epoch")
        if not hosted.running or Weakness.RESUME_TWICE in self.mesh.weak:
            hosted = self._restored(hosted, command)
        self.hosted[command.job] = hosted.at(command.epoch, running=True)
        return Resumed()

    def _restored(self, hosted: Hosted, command: ResumeJob) -> Hosted:
        """Return the job with the state that the command names. A state is put in place once."""
        wanted = command.digest
        if command.after_serials is not None:
            wanted = f"{command.operation} after {sorted(command.after_serials.items())}"
        if wanted is None or (wanted == hosted.restored and Weakness.RESUME_TWICE not in self.mesh.weak):
            return hosted
        place = (command.job, hosted.assignment.generation)
        if command.after_serials is not None:
            self.checkpoints[place], planned = next(iter(command.after_serials.values())), None
        else:
            self.checkpoints[place], planned = self.mesh.arrived(command.operation, wanted)
        self.planned.pop(place, None)
        if planned is not None:
            self.planned[place] = planned
        return replace(hosted, restored=wanted, awaits_state=False)

    def _on_keep_standby(self, command: KeepStandby) -> StandbyKept:
        wanted = command.assignment
        job, place = wanted.spec.name, (wanted.spec.name, wanted.generation)
        known = self.hosted.get(job)
        if known is not None and (known.running or known.assignment.epoch > wanted.epoch):
            raise fenced("an older epoch")
        self.hosted[job] = Hosted(wanted, running=False)
        if command.arrived is not None:
            (self.checkpoints[place],) = command.arrived.serials.values()
        if command.needed and place not in self.checkpoints:
            raise TowpathError(ErrorCode.NOT_ALLOWED, "no copy of the state is here")
        return StandbyKept(state=command.arrived)

    def _on_promote_output(self, command: PromoteOutput) -> Done:
        # The output that it makes is that of the job from the next epoch on.
        if self.mesh.output(command.job, command.output).accepted > command.epoch:
            raise fenced("an older epoch")
        return Done()

    def _on_take_over(self, command: TakeOver) -> Resumed:
        wanted = command.assignment
        known = self._hosted(wanted.spec.name)
        if known.assignment.epoch > wanted.epoch:
            raise fenced("an older epoch")
        if not known.running:
            known = replace(known, assignment=wanted)
        self.hosted[wanted.spec.name] = known.at(wanted.epoch, running=True)
        return Resumed()

    def keep_copy(self, owner: Assignment, at: int, moment: datetime) -> None:
        """Become the standby of a job, with a copy of the state that its owner has now."""
        copied = StandbyCopy(
            epoch=owner.epoch,
            generation=owner.generation,
            digest=str(at),
            serials={entry.name: at for entry in owner.inputs},
            taken_at=moment,
        )
        kept = owner.model_copy(update={"desired": DesiredState.STANDBY})
        self.handle(KeepStandby(site=self.name, operation="standby", assignment=kept, arrived=copied))

    def _on_observe_progress(self, command: ObserveProgress) -> JobStatus:
        epoch = self._hosted(command.job).assignment.epoch
        at = self.mesh.clock.now() + timedelta(seconds=3)
        return JobStatus(job=command.job, epoch=epoch, state=JobState.RUNNING, committed_at=at)

    def _on_reset(self, command: ResetRole) -> Done:
        job, hosted = command.job, self.hosted.get(command.job)
        if not self._is_asked_to_reset(command):
            return Done(note="no role in this operation")
        if hosted is not None and self._is_given_again(command, hosted):
            return Done(note="the job was given again")
        self.roles.pop(job, None)
        if not command.keep_job:
            self._leave(job)
        elif hosted is not None:
            kept = hosted if hosted.running else hosted.at(hosted.assignment.epoch, running=True)
            assignment = kept.assignment.model_copy(update={"migration": None})
            self.hosted[job] = replace(kept, assignment=assignment)
        return Done()

    def _is_given_again(self, command: ResetRole, hosted: Hosted) -> bool:
        """True if the job came back since the operation of this command."""
        heeds = Weakness.RESET_ANY_OPERATION not in self.mesh.weak and command.epoch is not None
        return heeds and hosted.assignment.epoch > (command.epoch or 0)

    def _is_asked_to_reset(self, command: ResetRole) -> bool:
        """True if the command's operation gave the role, or reconciliation asks, which resets any site with
        the job."""
        obeys = Weakness.RESET_ANY_OPERATION in self.mesh.weak or command.operation.startswith(RECONCILIATION)
        return obeys or self.roles.get(command.job) == command.operation

    def _leave(self, job: str) -> None:
        """Forget the assignment and its checkpoint: no later start may continue from it."""
        hosted = self.hosted.pop(job, None)
        if hosted is not None:
            self.checkpoints.pop((job, hosted.assignment.generation), None)
            self.planned.pop((job, hosted.assignment.generation), None)

    def _on_start_job(self, command: StartJob) -> Done:
        job = command.assignment.spec.name
        hosted = self.hosted.get(job)
        if hosted is not None and command.assignment.epoch < hosted.assignment.epoch:
            raise fenced("an older epoch")
        if hosted is not None and command.assignment.version < hosted.assignment.version:
            return Done()
        self._derive(command.assignment)
        is_blank = self._is_blank(command.assignment)
        self._checkpoint(command.assignment)
        self.hosted[job] = Hosted(command.assignment, running=True, awaits_state=is_blank)
        return Done()

    def _derive(self, assignment: Assignment) -> None:
        """Make the first checkpoint of a generation that continues with the state of the one before."""
        if assignment.derived is not None:
            name = assignment.spec.name
            before = self.checkpoints.get((name, assignment.derived.generation), 0)
            self.checkpoints.setdefault((name, assignment.generation), before)

    def _is_blank(self, assignment: Assignment) -> bool:
        """True if the job would begin from nothing after it has published results elsewhere."""
        job, output = assignment.spec.name, self.mesh.outputs.get(assignment.spec.name)
        is_new = (job, assignment.generation) not in self.checkpoints
        begins_empty = assignment.generation == 1 and assignment.inputs[0].after_serial is None
        return is_new and begins_empty and output is not None and bool(output.counted)

    def _on_stop_job(self, command: StopJob) -> Paused:
        if command.job not in self.hosted:
            return Paused(serials={}, batch=None, last_processed_at=None)
        known = self.hosted[command.job].assignment.epoch
        if command.epoch is not None and known > command.epoch:
            raise epoch_is_over(f"{command.job} at this site", command.epoch, known)
        paused = self._stop(command.job)
        if command.forget:
            del self.hosted[command.job]
            self.checkpoints = {k: v for k, v in self.checkpoints.items() if k[0] != command.job}
            self.planned = {k: v for k, v in self.planned.items() if k[0] != command.job}
        return paused

    def _on_prepare_output(self, command: PrepareOutput) -> Done:
        self.mesh.output(command.job, command.output)
        return Done()

    def _on_close_output(self, command: CloseOutput) -> Done:
        # One output stands for all streams that a job has had: all that matters is who may publish.
        output = self.mesh.output(command.job, command.output)
        if output.accepted > command.epoch:
            raise fenced(f"epoch {command.epoch}: the output is at {output.accepted}")
        output.accepted = 0
        return Done()

    def _on_drop_output(self, command: DropOutput) -> Done:
        self.mesh.outputs.pop(command.job, None)
        return Done()

    def _on_check_spec(self, command: CheckSpec) -> Done:
        return Done()

    def _on_try_code(self, command: TryCode) -> Done:
        return Done()


def _serials(hosted: Hosted, at: int) -> dict[str, int]:
    return {hosted.assignment.inputs[0].name: at}


def _results(begin: int, end: int, windows: bool) -> list[Result]:
    """Return rejected events first, then one result for all events, or one for each."""
    rejected = [Result(n - 1, n, rejected=True) for n in range(begin + 1, end + 1) if n % REJECTED_EVERY == 0]
    if windows:
        return [*rejected, Result(begin, end)]
    return [*rejected, *(Result(n - 1, n) for n in range(begin + 1, end + 1))]
