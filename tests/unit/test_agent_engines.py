"""The choice of a job's engine at a site, and the life of engines of single jobs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from running.waiting import WITHIN_S, eventually
from towpath.agent import jobs as agent_jobs
from towpath.agent.assignments import AssignmentStore
from towpath.agent.engines import Engines, engine_of
from towpath.agent.jobs import Jobs
from towpath.contracts.engine import SHARED_ENGINE, QueryList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, JobContainer, JobSpec, JobState, JobStatus
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT, Paused
from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS
from towpath.mesh.names import engine_process, is_engine_process
from towpath.processes import ChildSpec, Supervisor, find, launch, listed, stop
from towpath.tasks import end

SHARING = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
NOWHERE = Path("/nowhere")
SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


def alone(name: str, container: JobContainer | None = None) -> Assignment:
    """A job that has an engine for itself."""
    spec = SHARING.spec.model_copy(update={"name": name, "container": container or JobContainer()})
    return SHARING.model_copy(update={"spec": spec})


@dataclass
class Client:
    """An engine that runs every job at once, as long as it is there."""

    engine: str
    is_there: bool = True
    running: list[JobStatus] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def answers(self) -> bool:
        return self.is_there

    async def queries(self) -> QueryList:
        if not self.is_there:
            raise TowpathError(ErrorCode.UNREACHABLE, "no one answers this command")
        return QueryList(incarnation="one", queries=list(self.running))

    async def run(self, assignment: Assignment, checkpoint: Path) -> None:
        self.asked.append(f"run {assignment.spec.name}")
        status = JobStatus(job=assignment.spec.name, epoch=assignment.epoch, state=JobState.RUNNING)
        self.running = [*self.running, status]

    async def analyse(self, assignment: Assignment, checkpoint: Path) -> None:
        self.asked.append(f"analyse {assignment.spec.name}")

    async def halt(self, job: str, within_s: float) -> Paused:
        self.asked.append(f"halt {job}")
        self.running = [status for status in self.running if status.job != job]
        return Paused(serials={}, batch=None, last_processed_at=None)


class Images:
    """Images that are all there; it records which ones were requested."""

    def __init__(self) -> None:
        self.wanted: list[JobContainer | None] = []

    async def ensure_image(self, wanted: JobContainer | None) -> None:
        self.wanted.append(wanted)


class Streams:
    """Streams that need no mirror."""

    site = "jfk"

    @property
    def mirrors(self) -> Streams:
        return self

    async def ensure(self, resolved: Any, after: int | None) -> str:
        return resolved.stream


@dataclass
class Trial:
    """Engines as real processes, which answer as `clients` do."""

    run: Path
    supervisor: Supervisor
    images: Images = field(default_factory=Images)
    clients: dict[str, Client] = field(default_factory=dict)
    waited_for: list[bool] = field(default_factory=list)
    """For each engine that was made: a job waits for it."""

    def __post_init__(self) -> None:
        self.engines = Engines(
            self.supervisor,
            cast("Any", self.images),
            cast("Any", self.client),
            cast("Any", self.child),
            "jfk",
        )

    def client(self, engine: str) -> Client:
        return self.clients.setdefault(engine, Client(engine))

    def child(self, client: Client, job: JobSpec | None, job_waits: bool) -> ChildSpec:
        name = engine_process("jfk", job.name if job else None)
        self.waited_for.append(job_waits)
        version = job.container.model_dump_json() if job and job.container else ""
        return ChildSpec(name, SLEEP, self.run / f"{name}.log", ready=client.answers, version=version)

    def pid(self, job: str | None = None) -> int | None:
        record = find(self.run, engine_process("jfk", job))
        return record.pid if record else None


@pytest.fixture
async def trial(tmp_path: Path) -> AsyncIterator[Trial]:
    async with Supervisor([], tmp_path) as supervisor:
        yield Trial(tmp_path, supervisor)
    for record in listed(tmp_path):
        stop(tmp_path, record.name, grace_s=0)


def test_engine_of_a_job_when_it_has_its_own_then_no_job_of_any_name_shares_it() -> None:
    assert (engine_of(SHARING), engine_of(alone("own"))) == (SHARED_ENGINE, "own")
    assert engine_process("jfk") != engine_process("jfk", "engine")
    assert is_engine_process(engine_process("jfk", "own"))
    assert not is_engine_process("jfk-nats")


async def test_own_engine_when_its_job_runs_then_is_there_and_when_it_leaves_then_is_not(
    trial: Trial,
) -> None:
    await trial.engines.start(trial.run, [])
    await trial.engines.run(alone("own"), NOWHERE)
    assert trial.clients["own"].asked == ["run own"]
    assert trial.engines.names() == ["own"]
    assert trial.pid("own") is not None
    await trial.engines.drop("own")
    assert (trial.engines.names(), trial.pid("own")) == ([], None)
    assert trial.clients[SHARED_ENGINE].asked == []


async def test_shared_engine_when_there_is_no_job_then_waits_for_the_first(
    trial: Trial,
) -> None:
    await trial.engines.start(trial.run, [])
    assert (trial.engines.names(), trial.pid(), await trial.engines.queries()) == ([], None, {})
    with pytest.raises(TowpathError, match="has no engine here"):
        await trial.engines.halt(SHARED_ENGINE, SHARING.spec.name, 1.0)
    await trial.engines.run(SHARING, NOWHERE)
    assert trial.pid() is not None
    assert trial.clients[SHARED_ENGINE].asked == [f"run {SHARING.spec.name}"]


async def test_shared_engine_when_a_job_is_deployed_then_is_told_that_it_waits_and_in_a_migration_not(
    trial: Trial,
) -> None:
    await trial.engines.check(SHARING, NOWHERE)
    await trial.supervisor.drop(engine_process("jfk"))
    await trial.engines.expect(None)
    assert trial.waited_for == [True, False]


async def test_shared_engine_when_it_has_long_had_no_job_then_is_ended_and_the_next_job_starts_one(
    trial: Trial,
) -> None:
    trial.engines._idle_s = 0.0
    await trial.engines.run(SHARING, NOWHERE)
    first = trial.pid()
    await trial.engines.tidy({SHARING.spec.name: SHARING})
    assert trial.pid() == first
    await trial.engines.tidy({})
    assert (trial.engines.names(), trial.pid()) == ([], None)
    await trial.engines.tidy({SHARING.spec.name: SHARING})
    assert trial.engines.names() == [SHARED_ENGINE]


async def test_shared_engine_when_its_last_job_has_just_left_then_stays_warm(trial: Trial) -> None:
    await trial.engines.run(SHARING, NOWHERE)
    await trial.engines.tidy({})
    assert trial.pid() is not None


async def test_shared_engine_when_its_job_left_while_no_agent_ran_then_is_ended(trial: Trial) -> None:
    launch(ChildSpec(engine_process("jfk"), SLEEP, trial.run / "left.log"), trial.run)
    await trial.engines.start(trial.run, [])
    assert trial.pid() is None


async def test_shared_engine_when_a_job_is_expected_then_starts_and_a_broken_one_is_told(
    trial: Trial,
) -> None:
    await trial.engines.expect(None)
    assert trial.engines.names() == [SHARED_ENGINE]
    await trial.supervisor.wait_ready(WITHIN_S)
    trial.clients[SHARED_ENGINE].is_there = False
    with pytest.raises(TowpathError, match="does not answer") as refused:
        await trial.engines.expect(None)
    assert refused.value.detail.code is ErrorCode.SITE_DOWN


async def test_own_engine_when_its_limits_change_then_is_another_and_else_the_same(trial: Trial) -> None:
    await trial.engines.start(trial.run, [])
    await trial.engines.run(alone("own"), NOWHERE)
    first = trial.pid("own")
    await trial.engines.run(alone("own"), NOWHERE)
    assert trial.pid("own") == first
    await trial.engines.run(alone("own", JobContainer(memory_mb=900)), NOWHERE)
    assert trial.pid("own") not in (None, first)


async def test_engines_when_the_agent_starts_then_are_those_of_its_jobs_and_no_others(trial: Trial) -> None:
    left = ChildSpec(engine_process("jfk", "gone"), SLEEP, trial.run / "gone.log")
    launch(left, trial.run)
    await trial.engines.start(trial.run, [SHARING, alone("own")])
    await trial.supervisor.wait_ready(WITHIN_S)
    assert trial.pid("gone") is None
    assert trial.pid() is not None
    assert trial.pid("own") is not None


async def test_own_engine_when_it_does_not_start_then_the_job_is_told_why(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.agent.engines.READY_S", 0.3)
    trial.client("own").is_there = False
    with pytest.raises(TowpathError, match="the engine of own does not start") as refused:
        await trial.engines.run(alone("own"), NOWHERE)
    assert refused.value.detail.code is ErrorCode.SITE_DOWN


async def test_queries_when_one_engine_is_silent_then_the_others_are_told(trial: Trial) -> None:
    await trial.engines.start(trial.run, [SHARING, alone("own")])
    await trial.supervisor.wait_ready(WITHIN_S)
    trial.clients["own"].is_there = False
    assert set(await trial.engines.queries()) == {SHARED_ENGINE}
    trial.clients[SHARED_ENGINE].is_there = False
    with pytest.raises(TowpathError):
        await trial.engines.queries()


async def test_check_when_a_job_may_never_be_started_then_the_shared_engine_does_it(trial: Trial) -> None:
    await trial.engines.start(trial.run, [])
    await trial.engines.check(alone("own"), NOWHERE)
    assert trial.clients[SHARED_ENGINE].asked == ["analyse own"]
    wanted = JobContainer(image="own:1")
    await trial.engines.check(alone("other", wanted), NOWHERE)
    assert trial.images.wanted == [JobContainer(), wanted]
    assert trial.clients[SHARED_ENGINE].asked == ["analyse own"]
    assert trial.engines.names() == [SHARED_ENGINE]


async def test_halt_when_the_job_has_no_engine_then_it_is_not_running_here(trial: Trial) -> None:
    await trial.engines.start(trial.run, [])
    with pytest.raises(TowpathError) as refused:
        await trial.engines.halt("own", "own", 1.0)
    assert refused.value.detail.code is ErrorCode.UNKNOWN_JOB


async def jobs_of(trial: Trial, *assignments: Assignment) -> Jobs:
    store = AssignmentStore(trial.run / "jobs", SPARK_CHECKPOINTS)
    for assignment in assignments:
        store.save(assignment)
    await trial.engines.start(trial.run, assignments)
    await trial.supervisor.wait_ready(WITHIN_S)
    return Jobs(store, trial.engines, cast("Any", Streams()))


async def test_jobs_when_one_has_an_engine_that_is_silent_then_the_others_are_kept_running(
    trial: Trial,
) -> None:
    jobs = await jobs_of(trial, SHARING, alone("own"))
    trial.clients["own"].is_there = False
    await jobs._reconcile()
    assert trial.clients[SHARED_ENGINE].asked == [f"run {SHARING.spec.name}"]
    assert trial.clients["own"].asked == []
    trial.clients["own"].is_there = True
    await jobs._reconcile()
    assert trial.clients["own"].asked == ["run own"]


async def test_jobs_when_the_checkpoint_of_one_is_damaged_then_says_so_and_the_others_are_kept_running(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = await jobs_of(trial, alone("own"), SHARING)
    position = jobs.store.position

    def damaged(assignment: Assignment) -> dict[str, int]:
        if assignment.spec.name == "own":
            raise FileNotFoundError("offsets/7")
        return position(assignment)

    monkeypatch.setattr(jobs.store, "position", damaged)
    await jobs._reconcile()

    assert trial.clients[SHARED_ENGINE].asked == [f"run {SHARING.spec.name}"]
    assert jobs.status(alone("own")).error == "FileNotFoundError: offsets/7"


async def test_jobs_when_a_look_fails_in_any_way_then_the_next_one_keeps_them_running(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_jobs, "RECONCILE_S", 0.01)
    jobs = await jobs_of(trial, SHARING)
    listed, failures = trial.engines.queries, [RuntimeError("unforeseen")]

    async def queries(*of: Assignment) -> Any:
        if failures:
            raise failures.pop()
        return await listed(*of)

    monkeypatch.setattr(trial.engines, "queries", queries)
    keeping = asyncio.create_task(jobs.keep())
    await eventually(lambda: trial.clients[SHARED_ENGINE].asked)
    await end([keeping])


async def test_jobs_when_the_wrong_engine_runs_one_then_it_is_halted_there_and_not_taken_for_its_own(
    trial: Trial,
) -> None:
    jobs = await jobs_of(trial, alone("own"))
    await trial.clients[SHARED_ENGINE].run(alone("own"), NOWHERE)
    await trial.engines.expect(None)
    await jobs._reconcile()
    assert trial.clients[SHARED_ENGINE].asked == ["run own", "halt own"]
    assert trial.clients["own"].asked == ["run own"]


async def test_engines_when_a_job_shares_one_by_now_then_its_own_is_ended(trial: Trial) -> None:
    await trial.engines.start(trial.run, [alone("own")])
    await trial.engines.tidy({"own": alone("own")})
    assert trial.engines.names() == ["own"]
    sharing = alone("own")
    spec = sharing.spec.model_copy(update={"container": None})
    await trial.engines.tidy({"own": sharing.model_copy(update={"spec": spec})})
    await eventually(lambda: trial.pid("own") is None)
    assert trial.engines.names() == [SHARED_ENGINE]
