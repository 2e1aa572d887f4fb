"""The agent adjusts a job for the site's operator: once, at a boundary, and never against the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from towpath.agent.adjustments import Adjustments
from towpath.agent.assignments import AssignmentStore, held
from towpath.agent.handlers import AgentHandlers
from towpath.agent.jobs import Jobs
from towpath.agent.reception import Reception
from towpath.agent.roles import Roles
from towpath.bus.deadlines import WAITS_HEADER, counting
from towpath.composition.adjustments import complete
from towpath.contracts.engine import SHARED_ENGINE, QueryList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import AdjustmentLost
from towpath.contracts.job import Assignment, JobState, JobStatus
from towpath.contracts.local_commands import AdjustJob
from towpath.contracts.message import Event
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT, AssignRole, Paused, Role
from towpath.contracts.site_commands import StartJob
from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS

_EXAMPLE = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
_INPUT = _EXAMPLE.inputs[0].model_copy(update={"after_serial": 0})
BEFORE = _EXAMPLE.model_copy(update={"inputs": [_INPUT], "spec": complete(_EXAMPLE.spec)})
JOB = BEFORE.spec.name
SLOWER = BEFORE.spec.model_copy(update={"trigger_s": 9.0})
STILL_SLOWER = BEFORE.spec.model_copy(update={"trigger_s": 20.0})


class Node:
    """A site with one engine, and what it knows and has told. Its disk outlives its agent."""

    def __init__(self, directory: Path) -> None:
        self.store = AssignmentStore(directory, SPARK_CHECKPOINTS)
        if not self.store.load_all():
            self.store.save(BEFORE)
        self.ran: list[Assignment] = []
        self.halted = 0
        self.state = JobState.RUNNING
        self.runs_as: JobState | None = None
        """State of the query from its next start on, if that differs."""
        self.unfinished = False
        self.events: list[Event] = []
        self.site = "jfk"
        self.jobs = Jobs(self.store, cast("Any", self), cast("Any", self))
        self.ran.append(BEFORE)
        self.adjustments = Adjustments("jfk", self.jobs)
        self.handlers = AgentHandlers(
            self.jobs, Reception("jfk", cast("Any", None), self.store, "s"), self.publish
        )

    @property
    def running(self) -> Assignment:
        return self.ran[-1]

    @property
    def on_disk(self) -> Assignment:
        return self.store.load_all()[JOB]

    async def publish(self, event: Event) -> None:
        self.events.append(event)

    # The engine.

    async def queries(self, of: Assignment | None = None) -> dict[str, QueryList]:
        status = JobStatus(job=JOB, **self.running.version._asdict(), state=self.state)
        return {SHARED_ENGINE: QueryList(incarnation="one", queries=[status])}

    async def check(self, assignment: Assignment, checkpoint: Path) -> None: ...

    def is_starting(self, assignment: Assignment) -> bool:
        return False

    async def halt(self, engine: str, job: str, within_s: float) -> Paused:
        self.halted += 1
        offsets = self.store.checkpoint(BEFORE) / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        if self.unfinished:
            (offsets / "0").touch()
        return Paused(serials={}, batch=None, last_processed_at=None)

    async def run(self, assignment: Assignment, checkpoint: Path) -> None:
        self.ran.append(assignment)
        self.state = self.runs_as or self.state

    # The streams.

    @property
    def mirrors(self) -> Node:
        return self

    async def reach_back(self, resolved: Any, after: int) -> None: ...

    async def ensure(self, resolved: Any, after: int | None) -> str:
        return resolved.stream

    # What a test does.

    async def adjust(self, spec: Any = SLOWER, identifier: str = "a1") -> int:
        await self.jobs._look(self.jobs.get(JOB))
        return (await self.adjustments.adjust(AdjustJob(id=identifier, site="jfk", spec=spec))).adjustments

    async def start(self, assignment: Assignment) -> None:
        await self.handlers.start_job(StartJob(site="jfk", operation="u1", assignment=assignment))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def refused(node: Node, code: ErrorCode, spec: Any = SLOWER) -> None:
    with pytest.raises(TowpathError) as found:
        await node.adjust(spec)
    assert found.value.detail.code is code
    assert node.on_disk.spec == BEFORE.spec
    assert not node.jobs.adjusting


async def test_job_when_adjusted_then_stops_at_a_boundary_and_runs_so_under_its_epoch(node: Node) -> None:
    assert await node.adjust() == 1
    assert node.halted == 1
    assert node.running == node.on_disk
    assert node.running.spec == SLOWER
    assert node.running.version == (BEFORE.epoch, BEFORE.revision, 1)


async def test_command_when_repeated_after_the_agent_died_then_changes_nothing_more(
    node: Node, tmp_path: Path
) -> None:
    await node.adjust()
    await node.adjust(STILL_SLOWER, "a2")
    again = Node(tmp_path)
    again.ran.append(again.on_disk)
    assert await again.adjust() == 2
    assert again.on_disk.spec == STILL_SLOWER
    assert again.halted == 0


async def test_agent_when_killed_after_the_assignment_was_written_then_the_loop_runs_it(
    node: Node, tmp_path: Path
) -> None:
    await node.adjust()
    again = Node(tmp_path)
    await again.jobs._reconcile()
    assert again.running.spec == SLOWER


async def test_job_when_it_is_so_already_then_runs_on(node: Node) -> None:
    assert await node.adjust(BEFORE.spec) == 0
    assert node.halted == 0


async def test_job_when_it_has_a_role_in_a_migration_then_is_not_adjusted(node: Node) -> None:
    node.store.take_role(JOB, "m1")
    await refused(node, ErrorCode.BUSY)


async def test_job_when_the_hub_holds_it_then_is_not_adjusted(node: Node) -> None:
    await node.jobs.keep_assignment(held(BEFORE, None))
    await refused(node, ErrorCode.BUSY)


async def test_job_when_another_site_owns_it_then_is_not_adjusted(node: Node) -> None:
    node.state = JobState.FENCED
    await refused(node, ErrorCode.FENCED)


async def test_job_when_its_micro_batch_is_interrupted_then_finishes_it_as_it_was(node: Node) -> None:
    node.unfinished = True
    await refused(node, ErrorCode.BUSY)


async def test_job_when_it_fails_again_and_again_then_may_be_adjusted_within_its_micro_batch(
    node: Node,
) -> None:
    node.unfinished, node.state, node.runs_as = True, JobState.RETRYING, JobState.RUNNING
    assert await node.adjust() == 1
    assert node.on_disk.spec == SLOWER


async def test_command_when_its_sender_has_given_up_then_nothing_is_written(node: Node) -> None:
    with counting({WAITS_HEADER: "-1"}):
        await refused(node, ErrorCode.DEADLINE)


async def test_hub_when_it_has_an_older_description_then_does_not_bring_it_back(node: Node) -> None:
    await node.adjust()
    await node.start(BEFORE)
    assert node.on_disk.spec == SLOWER
    await node.jobs.keep_assignment(held(node.on_disk, None))
    await node.start(BEFORE)
    assert node.running.spec == SLOWER


@pytest.mark.parametrize("newer", [{"epoch": BEFORE.epoch + 1}, {"revision": BEFORE.revision + 1}])
async def test_hub_when_it_has_changed_the_job_too_then_wins_and_the_loss_is_told(
    node: Node, newer: dict[str, int]
) -> None:
    await node.adjust()
    await node.start(BEFORE.model_copy(update={"spec": STILL_SLOWER, **newer}))
    assert node.on_disk.spec == STILL_SLOWER
    (lost,) = node.events
    assert isinstance(lost, AdjustmentLost)
    assert lost.lost == SLOWER


async def test_hub_when_its_change_contains_the_adjustments_then_nothing_is_lost(node: Node) -> None:
    await node.adjust()
    changed = {"epoch": BEFORE.epoch + 1, "spec": STILL_SLOWER, "adjustments": 1}
    await node.start(BEFORE.model_copy(update=changed))
    assert node.on_disk.adjusted_by == ["a1"]
    assert node.events == []


@pytest.mark.parametrize(("known", "is_source"), [(0, False), (1, True)])
async def test_migration_when_it_does_not_know_the_adjustments_then_the_site_is_no_source(
    node: Node, known: int, is_source: bool
) -> None:
    await node.adjust()
    roles = Roles("jfk", node.jobs, node.handlers.reception, cast("Any", None))
    role = AssignRole(site="jfk", operation="m1", job=JOB, role=Role.SOURCE, adjustments=known)
    if is_source:
        await roles.assign_role(role)
    else:
        with pytest.raises(TowpathError):
            await roles.assign_role(role)
    assert node.store.has_role(JOB, "m1") is is_source
