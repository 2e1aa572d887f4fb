"""A mesh small enough to check a table against every fault: agents as state machines.

Each simulated agent does what `contracts/PROTOCOL.md` says an agent must do, and no more. A job's
state is one number: the last serial its checkpoint covers. Events are the numbers 1, 2, 3, …
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState, JobState, JobStatus, ResolvedOutput
from towpath.contracts.message import Model
from towpath.contracts.migration import (
    AssignRole,
    CheckSpec,
    DropOutput,
    Launched,
    LaunchRetrieve,
    ObserveProgress,
    Paused,
    PauseTransfer,
    ResetRole,
    Resumed,
    ResumeJob,
    SetEpoch,
    SiteCommand,
    StartJob,
    StopJob,
)
from towpath.contracts.reply import Done

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def refuse(code: ErrorCode, message: str) -> TowpathError:
    """A refusal, as an agent gives it."""
    return TowpathError(code, message)


@dataclass
class SimulatedClock:
    """Time that passes only when somebody waits."""

    elapsed_s: float = 0.0

    def now(self) -> datetime:
        """See `Clock.now`."""
        return BEGINNING + timedelta(seconds=self.elapsed_s)

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.elapsed_s

    async def sleep(self, seconds: float) -> None:
        """Return at once, later."""
        self.elapsed_s += seconds


@dataclass(frozen=True)
class Hosted:
    """A job at a site."""

    assignment: Assignment
    running: bool

    def at(self, epoch: int, *, running: bool) -> Hosted:
        """Under another epoch, running or held."""
        desired = DesiredState.RUNNING if running else DesiredState.HELD
        return Hosted(self.assignment.model_copy(update={"epoch": epoch, "desired": desired}), running)


@dataclass
class SimulatedSite:
    """An agent with its engine and its streams."""

    name: str
    mesh: SimulatedMesh
    hosted: dict[str, Hosted] = field(default_factory=dict)
    checkpoints: dict[tuple[str, int], int] = field(default_factory=dict)
    """(job, generation) → last serial covered."""
    roles: dict[str, str] = field(default_factory=dict)
    """Job → operation in which the site has a role."""
    answers: dict[str, Model] = field(default_factory=dict)

    def handle(self, command: SiteCommand[Any]) -> Model:
        """Carry a command out once; repeat the answer of one that was. Raises `TowpathError`."""
        if command.id not in self.answers:
            verb = command.verb().replace("-", "_")
            self.answers[command.id] = getattr(self, f"_on_{verb}")(command)
        return self.answers[command.id]

    def lose_memory(self) -> None:
        """The agent's process dies: what is on its disk stays, which answers it gave is forgotten."""
        self.answers.clear()

    def status(self) -> list[JobStatus]:
        """The jobs of the heartbeat."""
        return [
            JobStatus(job=job, epoch=hosted.assignment.epoch, state=self._state(job, hosted))
            for job, hosted in self.hosted.items()
        ]

    def _state(self, job: str, hosted: Hosted) -> JobState:
        if not hosted.running:
            return JobState.HELD
        return JobState.RUNNING if self.mesh.may_publish(self.name, job) else JobState.FENCED

    def _hosted(self, job: str) -> Hosted:
        if job not in self.hosted:
            raise refuse(ErrorCode.UNKNOWN_JOB, f"{job} is not at {self.name}")
        return self.hosted[job]

    def _on_assign_role(self, command: AssignRole) -> Done:
        self.roles[command.job] = command.operation
        return Done()

    def _on_launch_retrieve(self, command: LaunchRetrieve) -> Launched:
        if self.roles.get(command.assignment.spec.name) != command.operation:
            raise refuse(ErrorCode.NOT_ALLOWED, "no role in this operation")
        self.hosted[command.assignment.spec.name] = Hosted(command.assignment, running=False)
        return Launched()

    def _on_pause_transfer(self, command: PauseTransfer) -> Paused:
        if self.roles.get(command.job) != command.operation:
            raise refuse(ErrorCode.NOT_ALLOWED, "no role in this operation")
        paused = self._stop(command.job)
        if command.transfer_state:
            self.mesh.transfers[command.operation] = next(iter(paused.serials.values()))
            paused = paused.model_copy(update={"digest": command.operation, "state_bytes": 100})
        return paused

    def _stop(self, job: str) -> Paused:
        hosted = self._hosted(job)
        self.hosted[job] = hosted.at(hosted.assignment.epoch, running=False)
        at = self._checkpoint(hosted.assignment)
        return Paused(
            serials={hosted.assignment.inputs[0].name: at}, batch=at, last_processed_at=self.mesh.clock.now()
        )

    def _checkpoint(self, assignment: Assignment) -> int:
        """The last serial covered; without a checkpoint, where the assignment says to begin."""
        start = assignment.inputs[0].after_serial or 0
        return self.checkpoints.setdefault((assignment.spec.name, assignment.generation), start)

    def _on_set_epoch(self, command: SetEpoch) -> Done:
        if command.epoch < self.mesh.outputs.get(command.job, (0, command.output))[0]:
            raise refuse(ErrorCode.FENCED, "epochs only grow")
        self.mesh.outputs[command.job] = (command.epoch, command.output)
        return Done()

    def _on_resume(self, command: ResumeJob) -> Resumed:
        hosted = self._hosted(command.job)
        if command.epoch < hosted.assignment.epoch:
            raise refuse(ErrorCode.FENCED, "an older epoch")
        place = (command.job, hosted.assignment.generation)
        if command.digest is not None:
            self.checkpoints[place] = self.mesh.transfers[command.digest]
        elif command.after_serials is not None:
            self.checkpoints[place] = next(iter(command.after_serials.values()))
        self.hosted[command.job] = hosted.at(command.epoch, running=True)
        return Resumed()

    def _on_observe_progress(self, command: ObserveProgress) -> JobStatus:
        epoch = self._hosted(command.job).assignment.epoch
        at = self.mesh.clock.now() + timedelta(seconds=3)
        return JobStatus(job=command.job, epoch=epoch, state=JobState.RUNNING, committed_at=at)

    def _on_reset(self, command: ResetRole) -> Done:
        self.roles.pop(command.job, None)
        hosted = self.hosted.get(command.job)
        if not command.keep_job:
            self.hosted.pop(command.job, None)
        elif hosted is not None:
            self.hosted[command.job] = hosted.at(hosted.assignment.epoch, running=True)
        return Done()

    def _on_start_job(self, command: StartJob) -> Done:
        job = command.assignment.spec.name
        hosted = self.hosted.get(job)
        if hosted is not None and command.assignment.epoch < hosted.assignment.epoch:
            raise refuse(ErrorCode.FENCED, "an older epoch")
        self._checkpoint(command.assignment)
        self.hosted[job] = Hosted(command.assignment, running=True)
        return Done()

    def _on_stop_job(self, command: StopJob) -> Paused:
        if command.job not in self.hosted:
            return Paused(serials={}, batch=None, last_processed_at=None)
        paused = self._stop(command.job)
        if command.forget:
            del self.hosted[command.job]
            self.checkpoints = {k: v for k, v in self.checkpoints.items() if k[0] != command.job}
        return paused

    def _on_drop_output(self, command: DropOutput) -> Done:
        self.mesh.outputs.pop(command.job, None)
        return Done()

    def _on_check_spec(self, command: CheckSpec) -> Done:
        return Done()


class SimulatedMesh:
    """Sites, one input stream, output streams."""

    def __init__(self, clock: SimulatedClock, *sites: str) -> None:
        self.clock = clock
        self.sites = {name: SimulatedSite(name, self) for name in sites}
        self.outputs: dict[str, tuple[int, ResolvedOutput]] = {}
        """Job → the epoch its output stream accepts, and the stream."""
        self.transfers: dict[str, int] = {}
        self.stored = 0
        """Newest serial of the input."""
        self.published: dict[str, set[int]] = {}
        """Job → serials whose results are in its output: message ids drop repeats."""

    def work(self, events: int = 1) -> None:
        """Events come in, and every running job does a micro-batch. A fenced one gets nowhere."""
        self.stored += events
        for site in self.sites.values():
            for job, hosted in site.hosted.items():
                if hosted.running and self.may_publish(site.name, job):
                    place = (job, hosted.assignment.generation)
                    begin = site._checkpoint(hosted.assignment)
                    self.published.setdefault(job, set()).update(range(begin + 1, self.stored + 1))
                    site.checkpoints[place] = self.stored

    def may_publish(self, site: str, job: str) -> bool:
        """Whether the output stream takes what this site's copy of the job publishes."""
        hosted, output = self.sites[site].hosted.get(job), self.outputs.get(job)
        return hosted is not None and output is not None and hosted.assignment.epoch == output[0]

    def owners(self, job: str) -> list[str]:
        """Sites that run the job and may publish."""
        return [n for n, s in self.sites.items() if self.may_publish(n, job) and s.hosted[job].running]

    def check(self, job: str) -> None:
        """Raise `AssertionError` if two may publish now, or an event can no longer be processed."""
        assert len(self.owners(job)) <= 1, f"{self.owners(job)} may all publish"
        done = self.published.get(job, set())
        frontier = next(serial for serial in range(1, self.stored + 2) if serial not in done)
        covered = [at for s in self.sites.values() for (name, _), at in s.checkpoints.items() if name == job]
        assert not covered or min(covered) < frontier, f"no checkpoint at or before serial {frontier}"
