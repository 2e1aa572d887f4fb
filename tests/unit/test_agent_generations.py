"""The state with which a job begins when its site must run it in another form."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from towpath.agent.assignments import AssignmentStore
from towpath.agent.handlers import AgentHandlers
from towpath.agent.jobs import Jobs
from towpath.agent.reception import Reception
from towpath.contracts.engine import SHARED_ENGINE, QueryList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, Derivation, JobState, JobStatus
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT, RECONCILIATION
from towpath.contracts.site_commands import StartJob
from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS

BEFORE = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
INPUT = BEFORE.inputs[0].model_copy(update={"after_serial": 0})
BEGUN = BEFORE.model_copy(update={"inputs": [INPUT]})
NAME = INPUT.name


class Engines:
    """One engine, which runs every job at once."""

    def __init__(self) -> None:
        self.running: list[JobStatus] = []

    async def queries(self, of: Assignment | None = None) -> dict[str, QueryList]:
        return {SHARED_ENGINE: QueryList(incarnation="one", queries=self.running)}

    async def run(self, assignment: Assignment, checkpoint: Path) -> None:
        version = assignment.version._asdict()
        self.running = [JobStatus(job=assignment.spec.name, **version, state=JobState.RUNNING)]


class Streams:
    """All mirrors are there, and the sites they come from are out of reach."""

    def __init__(self) -> None:
        self.wanted_after: list[int] = []

    @property
    def mirrors(self) -> Streams:
        return self

    async def bounds(self, site: str, stream: str) -> None:
        raise TowpathError(ErrorCode.UNREACHABLE, f"stream {stream} of {site} does not answer")

    async def reach_back(self, resolved: Any, after: int) -> None:
        self.wanted_after.append(after)

    async def ensure(self, resolved: Any, after: int | None) -> str:
        return resolved.stream


def handlers(directory: Path) -> AgentHandlers:
    AssignmentStore(directory, SPARK_CHECKPOINTS).save(BEFORE)
    return handlers_of(directory)


def handlers_of(directory: Path) -> AgentHandlers:
    store = AssignmentStore(directory, SPARK_CHECKPOINTS)
    jobs = Jobs(store, cast("Any", Engines()), cast("Any", Streams()))
    return AgentHandlers(jobs, Reception("jfk", cast("Any", None), store, "s"), cast("Any", None))


def start(*, epoch: int, generation: int, serial: int, derived: bool = False) -> StartJob:
    entry = INPUT.model_copy(update={"after_serial": serial})
    state = (
        Derivation(generation=BEFORE.generation, inputs=[NAME], serials={NAME: serial}) if derived else None
    )
    changed = BEFORE.model_copy(
        update={"epoch": epoch, "generation": generation, "inputs": [entry], "derived": state}
    )
    return StartJob(site="jfk", operation="u1", assignment=changed)


def undo(*, epoch: int) -> StartJob:
    return StartJob(site="jfk", operation="u1", assignment=BEFORE.model_copy(update={"epoch": epoch}))


def commit(checkpoint: Path, serial: int) -> None:
    for folder, text in (("offsets", f'v1\n{{}}\n{{"serial": {serial}}}'), ("commits", "v1\n{}")):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        (checkpoint / folder / "0").write_text(text)


async def test_generation_when_an_undone_change_began_it_before_then_begins_where_it_is_told(
    tmp_path: Path,
) -> None:
    site = handlers(tmp_path)
    store = site.jobs.store
    commit(store.checkpoint(BEFORE), 10)
    await site.start_job(start(epoch=3, generation=2, serial=10))
    commit(store.checkpoint(site.jobs.get(BEFORE.spec.name)), 12)
    await site.start_job(undo(epoch=4))
    assert site.jobs.position(site.jobs.get(BEFORE.spec.name)) == {NAME: 10}
    again = start(epoch=5, generation=2, serial=20)
    await site.start_job(again)
    assert site.jobs.position(site.jobs.get(BEFORE.spec.name)) == {NAME: 20}
    commit(store.checkpoint(again.assignment), 25)
    await site.start_job(again)
    assert site.jobs.position(site.jobs.get(BEFORE.spec.name)) == {NAME: 25}, "told again, it goes on"
    wanted_after = cast("Streams", site.jobs.streams).wanted_after
    assert wanted_after == [10, 10, 20, 25], "nothing that is processed is needed again"


async def test_generation_when_derived_again_after_an_undone_change_then_has_the_later_state(
    tmp_path: Path,
) -> None:
    site = handlers(tmp_path)
    store = site.jobs.store
    commit(store.checkpoint(BEFORE), 10)
    (store.checkpoint(BEFORE) / "state").mkdir()
    await site.start_job(start(epoch=3, generation=2, serial=10, derived=True))
    await site.start_job(undo(epoch=4))
    commit(store.checkpoint(BEFORE), 20)
    await site.start_job(start(epoch=5, generation=2, serial=20, derived=True))
    assert site.jobs.position(site.jobs.get(BEFORE.spec.name)) == {NAME: 20}


def lost(directory: Path) -> AgentHandlers:
    """Return the handlers of a site that has a checkpoint, and lost the assignment with its power."""
    agent = handlers(directory)
    commit(agent.jobs.store.checkpoint(BEFORE), 7)
    (directory / BEFORE.spec.name / "assignment.json").unlink()
    return handlers_of(directory)


async def test_job_when_its_assignment_is_lost_and_reconciliation_starts_it_then_goes_on_from_its_checkpoint(
    tmp_path: Path,
) -> None:
    agent = lost(tmp_path)
    await agent.start_job(StartJob(site="jfk", operation=f"{RECONCILIATION}1", assignment=BEGUN))
    assert agent.jobs.position(BEFORE) == {NAME: 7}


async def test_job_when_deployed_where_a_checkpoint_is_that_nothing_explains_then_that_is_put_aside(
    tmp_path: Path,
) -> None:
    agent = lost(tmp_path)
    await agent.start_job(StartJob(site="jfk", operation="d1", assignment=BEGUN))
    assert not agent.jobs.store.checkpoint(BEFORE).exists()
    assert [path.name for path in (tmp_path / ".aside").glob("*/checkpoint-*/commits/*")] == ["0"]


async def test_job_when_it_left_and_the_agent_died_meanwhile_then_what_it_left_is_no_state_of_its_successor(
    tmp_path: Path,
) -> None:
    agent = lost(tmp_path)
    (tmp_path / BEFORE.spec.name / "left").touch()
    await agent.start_job(StartJob(site="jfk", operation=f"{RECONCILIATION}1", assignment=BEGUN))
    assert not agent.jobs.store.checkpoint(BEFORE).exists()
    assert not (tmp_path / ".aside").exists()
