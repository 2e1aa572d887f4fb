"""Pipelines on the command line: commands, output, and refusals with their place."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from towpath.cli import connection, pipeline_applying, pipeline_files, pipeline_options, pipelines
from towpath.cli.__main__ import app
from towpath.cli.endings import BAD_INPUT, FAILED
from towpath.cli.pipeline_progress import ApplyProgress
from towpath.contracts.commands import ListSites, SiteList
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.events import StepDone
from towpath.contracts.message import Command, Event
from towpath.contracts.pipeline import (
    Action,
    ApplyState,
    ApplyView,
    ChangeState,
    ChangeView,
    PipelinePlan,
    PipelineSpec,
    PipelineVersion,
    PipelineView,
    PlannedChange,
)
from towpath.contracts.pipeline_commands import (
    ApplyEnded,
    ApplyPipeline,
    DeletePipeline,
    JobApplied,
    ListPipelines,
    PipelineHistory,
    PipelineList,
    PlanPipeline,
    RetryPipeline,
    RollbackPipeline,
    ShowPipeline,
    ShowPipelineHistory,
)
from towpath.contracts.site import SiteState, SiteStatus

EXAMPLES = Path(__file__).parents[2] / "examples"
AT = datetime(2026, 1, 1, tzinfo=UTC)

OWN = """\
name: delays
jobs:
  - name: clean
    site: jfk
    inputs: [{site: jfk, topic: site/departures}]
    output: {topic: departures/clean}
    operator: {kind: forward}
  - name: late
    site: jfk
    inputs: [{site: jfk, topic: departures/clean}]
    output: {topic: departures/late}
    operator: {kind: filter, fields: {delay: double}, where: delay > 15}
"""
SPEC = PipelineSpec.model_validate(yaml.safe_load(OWN))

MOVE = PlannedChange(
    job="late",
    actions=[Action.CHANGE, Action.MOVE],
    reason='operator.where: "delay > 15" → "delay > 30"',
    source="jfk",
    target="cloud",
    predicted_s=4.0,
    predicted_bytes=1200,
)
KEEP = PlannedChange(job="clean", actions=[Action.KEEP], reason="unchanged")
SITES = SiteList(
    sites=[
        SiteStatus(site=name, state=SiteState.UP, nats_url="nats://h:1", mqtt_host="h", mqtt_port=1)
        for name in ("jfk", "lga", "cloud")
    ]
)


def applying(state: ApplyState, change: ChangeState, *, error: ErrorDetail | None = None) -> ApplyView:
    return ApplyView(
        apply="a1",
        pipeline="delays",
        version=2,
        state=state,
        begun_at=AT,
        changes=[
            ChangeView(change=KEEP, state=ChangeState.COMPLETED),
            ChangeView(change=MOVE, state=change, error=error, took_s=1.5),
        ],
    )


RUNNING = applying(ApplyState.RUNNING, ChangeState.WAITING)
DONE = applying(ApplyState.COMPLETED, ChangeState.COMPLETED)
REFUSED = ErrorDetail(code=ErrorCode.FAILED, message="the engine is full")


def pipeline_view(apply: ApplyView) -> PipelineView:
    return PipelineView(pipeline="delays", version=2, spec=SPEC, apply=apply, job_versions={"late": 2})


Answers = dict[type[Command[Any]], Any]


class FakeBus:
    """Answers with what a test prepared: a model, an error, or a function of the command."""

    def __init__(self, answers: Answers) -> None:
        self.answers: Answers = {ListSites: SITES, **answers}
        self.sent: list[Command[Any]] = []
        self.handlers: dict[type[Event], Callable[[Any], Awaitable[None]]] = {}

    async def request(self, command: Command[Any], *, deadline_s: float, attempt_s: float = 0.0) -> Any:
        self.sent.append(command)
        answer = self.answers[type(command)]
        answer = await answer(command) if callable(answer) else answer
        if isinstance(answer, TowpathError):
            raise answer
        return answer

    async def subscribe(
        self, kind: type[Event], handle: Callable[[Any], Awaitable[None]], **fixed: str
    ) -> None:
        assert fixed.keys() <= {"pipeline"}
        self.handlers[kind] = handle

    async def tell(self, event: Event) -> None:
        """Deliver an event to the subscribers of its kind."""
        if type(event) in self.handlers:
            await self.handlers[type(event)](event)


class Mesh:
    """A mesh that answers as told."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bus = FakeBus({})
        self.home = tmp_path / "home"

        @asynccontextmanager
        async def opened(_: object, **__: object) -> AsyncIterator[FakeBus]:
            yield self.bus

        for module in (connection, pipelines, pipeline_files, pipeline_options):
            monkeypatch.setattr(module, "open_bus", opened)
        monkeypatch.setattr(pipeline_applying, "LOOK_EVERY_S", 0.01)

    def answers(self, answers: Answers) -> None:
        self.bus.answers.update(answers)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["--home", str(self.home), "pipeline", *arguments])

    def sent(self, kind: type[Command[Any]]) -> Any:
        (found,) = [command for command in self.bus.sent if type(command) is kind]
        return found


@pytest.fixture
def mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mesh:
    return Mesh(tmp_path, monkeypatch)


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "delays.yaml"
    path.write_text(OWN)
    return str(path)


def test_apply_when_it_goes_well_then_shows_progress_in_lines_and_its_end(mesh: Mesh, own: str) -> None:
    async def ends(_: Command[Any]) -> PipelineView:
        return pipeline_view(DONE)

    async def begins(_: Command[Any]) -> ApplyView:
        await mesh.bus.tell(
            JobApplied(
                pipeline="delays", apply="a1", job="late", actions=MOVE.actions, state=ChangeState.RUNNING
            )
        )
        asyncio.get_running_loop().call_soon(
            lambda: asyncio.ensure_future(
                mesh.bus.tell(
                    ApplyEnded(pipeline="delays", apply="a1", version=2, state=ApplyState.COMPLETED)
                )
            )
        )
        return RUNNING

    mesh.answers({ApplyPipeline: begins, ShowPipeline: ends})
    result = mesh.run("apply", own, "--now", "--at-once", "7", "--drop-state", "late")
    assert result.exit_code == 0, result.stderr
    command = mesh.sent(ApplyPipeline)
    assert (command.spec, command.now, command.at_once) == (SPEC, True, 7)
    assert (command.drop_state, command.wait) == (["late"], False)
    assert result.stderr.splitlines() == [
        "late: change, move jfk → cloud running",
        "late: change, move jfk → cloud completed",
    ]
    assert "delays version 2 completed, 1 job(s) untouched" in result.stdout
    assert "1.50 s" in result.stdout


def test_job_when_only_the_first_half_of_its_change_was_done_then_is_shown_between_two_versions(
    mesh: Mesh,
) -> None:
    failed = applying(ApplyState.FAILED, ChangeState.FAILED, error=REFUSED)
    half = failed.changes[1].model_copy(update={"done": [Action.CHANGE]})
    view = pipeline_view(failed.model_copy(update={"changes": [failed.changes[0], half]}))
    mesh.answers({ShowPipeline: view.model_copy(update={"job_versions": {"late": 1}})})
    assert "1, partly 2 (not: move)" in mesh.run("show", "delays").stdout


def test_apply_when_a_job_fails_then_says_which_and_what_helps(mesh: Mesh, own: str) -> None:
    failed = applying(ApplyState.FAILED, ChangeState.FAILED, error=REFUSED)
    helps = "`towpath pipeline retry delays` goes on, `towpath pipeline rollback delays` goes back"
    mesh.answers({ApplyPipeline: failed.model_copy(update={"note": helps})})
    result = mesh.run("apply", own)
    assert result.exit_code == FAILED
    assert "the engine is full" in result.stdout
    assert "towpath pipeline retry delays" in result.stderr
    assert "towpath pipeline rollback delays" in result.stderr


def test_apply_when_it_takes_too_long_then_goes_on_and_says_how_to_follow_it(mesh: Mesh, own: str) -> None:
    mesh.answers({ApplyPipeline: RUNNING, ShowPipeline: pipeline_view(RUNNING)})
    result = mesh.run("apply", own, "--within", "1")
    assert result.exit_code == FAILED
    assert "towpath pipeline show delays" in result.stderr


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt even in a shell's background job, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_apply_when_interrupted_then_leaves_it_running_and_says_how_to_follow_it(
    mesh: Mesh, own: str
) -> None:
    async def interrupted(_: Command[Any]) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    mesh.answers({ApplyPipeline: RUNNING, ShowPipeline: interrupted})
    result = mesh.run("apply", own)
    assert result.exit_code == 130
    assert "towpath pipeline show delays" in result.stderr
    assert [type(command) for command in mesh.bus.sent] == [ListSites, ApplyPipeline, ShowPipeline]


def test_apply_when_not_waited_for_then_only_says_that_it_goes(mesh: Mesh, own: str) -> None:
    mesh.answers({ApplyPipeline: RUNNING})
    result = mesh.run("apply", own, "--no-wait")
    assert (result.exit_code, "towpath pipeline show delays" in result.stderr) == (0, True)
    assert ShowPipeline not in {type(command) for command in mesh.bus.sent}


@pytest.mark.parametrize("arguments", [["plan"], ["apply", "--dry-run"]])
def test_plan_when_asked_for_then_shows_order_cost_and_reasons_and_does_nothing(
    mesh: Mesh, own: str, arguments: list[str]
) -> None:
    plan = PipelinePlan(
        pipeline="delays", version=2, changes=[KEEP, MOVE], predicted_s=4.0, predicted_bytes=1200
    )
    mesh.answers({PlanPipeline: plan})
    result = mesh.run(*arguments, own)
    assert result.exit_code == 0, result.stderr
    assert {type(command) for command in mesh.bus.sent} == {ListSites, PlanPipeline}
    for part in ("change, move jfk → cloud", MOVE.reason, "1 change(s), 1 job(s) untouched", "1,200 bytes"):
        assert part in result.stdout
    printed = json.loads(mesh.run(*arguments, own, "--json").stdout)
    assert PipelinePlan.model_validate(printed) == plan


def test_plan_when_a_speck_file_is_refused_then_each_error_is_a_line_with_its_own_place(mesh: Mesh) -> None:
    wrong = [
        ErrorDetail(
            code=ErrorCode.UNKNOWN_TOPIC,
            message="no job writes it",
            field="jobs[3].inputs[0].topic",
            value="c",
        ),
        ErrorDetail(
            code=ErrorCode.NOT_ALLOWED, message="shared", field="jobs[1].output.topic", allowed=["x"]
        ),
    ]
    mesh.answers({PlanPipeline: TowpathError(ErrorCode.INVALID, "two errors", errors=wrong)})
    file = str(EXAMPLES / "speck" / "listing-1.yaml")
    result = mesh.run("plan", file, "--name", "speck")
    assert result.exit_code == BAD_INPUT
    assert result.stderr.splitlines() == [
        f"{file}: jobs[3].source_topic: no job writes it; given: 'c'",
        f"{file}: jobs[1].sink_topic: shared; allowed: x",
    ]


def test_plan_when_the_coordinator_is_out_of_reach_then_the_file_is_not_blamed(mesh: Mesh, own: str) -> None:
    mesh.answers({PlanPipeline: TowpathError(ErrorCode.UNREACHABLE, "no one listens")})
    result = mesh.run("plan", own)
    assert result.exit_code == FAILED
    assert result.stderr == "towpath: no one listens\n"


@pytest.mark.parametrize("command", ["apply", "plan", "diff"])
def test_file_when_wrong_then_every_error_is_a_line_before_any_mesh_is_asked_for(
    tmp_path: Path, command: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(OWN.replace("site: jfk\n", "site: JFK\n").replace("kind: forward", "kind: backward"))
    result = CliRunner().invoke(app, ["--home", str(tmp_path / "home"), "pipeline", command, str(path)])
    assert result.exit_code == BAD_INPUT
    assert [line.split(": ")[:2] for line in result.stderr.splitlines()] == [
        [str(path), "jobs[0].site"],
        [str(path), "jobs[0].operator.kind"],
        [str(path), "jobs[1].site"],
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name: [1, 2\njobs: 3\n", "line 2, column 5"),
        (b"\xff\xfe", "UTF-8"),
        (None, "No such file"),
    ],
)
def test_file_when_unreadable_then_one_line_says_why(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "bad.yaml"
    if content is not None:
        path.write_bytes(content)
    result = CliRunner().invoke(app, ["--home", str(tmp_path / "home"), "pipeline", "apply", str(path)])
    assert result.exit_code == BAD_INPUT
    assert said in result.stderr
    assert str(path) in result.stderr
    assert result.stderr.count("\n") == 1


def test_file_when_it_names_user_code_then_that_is_found_from_the_file(mesh: Mesh, tmp_path: Path) -> None:
    mesh.answers({ApplyPipeline: DONE})
    file = EXAMPLES / "speck" / "listing-1.yaml"
    assert mesh.run("apply", str(file), "--name", "speck").exit_code == 0
    found = {job.operator.artefact for job in mesh.sent(ApplyPipeline).spec.jobs}
    assert found == {str(file.parent / "code")}


def test_file_when_its_user_code_is_missing_then_the_mesh_tells_with_all_other_errors(
    mesh: Mesh, tmp_path: Path
) -> None:
    places = ("jobs[0].operator.artefact", "jobs[1].site")
    errors = [ErrorDetail(code=ErrorCode.INVALID, message="wrong", field=place) for place in places]
    mesh.answers({ApplyPipeline: TowpathError(ErrorCode.INVALID, "wrong", errors=errors)})
    copy = tmp_path / "Listing 1.yaml"
    copy.write_text((EXAMPLES / "speck" / "listing-1.yaml").read_text())
    result = mesh.run("apply", str(copy))
    assert result.exit_code == BAD_INPUT
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == [
        "jobs[0].job_path",
        "jobs[1].spe_address",
    ]


def test_diff_when_fields_differ_then_shows_old_and_new_job_by_job(mesh: Mesh, tmp_path: Path) -> None:
    mesh.answers({ShowPipeline: pipeline_view(DONE)})
    path = tmp_path / "delays.yaml"
    path.write_text(OWN.replace("delay > 15", "delay > 30").replace("name: clean", "name: cleaner"))
    result = mesh.run("diff", str(path))
    assert result.stdout.splitlines() == [
        "- clean",
        "+ cleaner",
        "~ late",
        '    operator.where: "delay > 15" → "delay > 30"',
    ]
    found = json.loads(mesh.run("diff", str(path), "--json").stdout)
    assert found[2]["fields"] == [{"field": "operator.where", "old": "delay > 15", "new": "delay > 30"}]
    path.write_text(OWN)
    assert mesh.run("diff", str(path)).stdout == "nothing differs in delays\n"


def test_diff_when_there_is_no_such_pipeline_yet_then_all_jobs_are_new(mesh: Mesh, own: str) -> None:
    mesh.answers({ShowPipeline: TowpathError(ErrorCode.UNKNOWN_PIPELINE, "no such pipeline")})
    assert mesh.run("diff", own).stdout.splitlines() == ["+ clean", "+ late"]


def test_pipelines_when_listed_and_shown_then_jobs_and_versions_are_told(mesh: Mesh) -> None:
    mesh.answers(
        {ListPipelines: PipelineList(pipelines=[pipeline_view(DONE)]), ShowPipeline: pipeline_view(DONE)}
    )
    listed = mesh.run("list").stdout
    assert all(part in listed for part in ("delays", "completed"))
    shown = mesh.run("show", "delays").stdout
    assert all(
        part in shown for part in ("jfk/site/departures", "jfk/departures/late", "filter", "version 2")
    )
    mesh.answers({ListPipelines: PipelineList(pipelines=[])})
    assert "no pipelines" in mesh.run("list").stdout
    assert json.loads(mesh.run("list", "--json").stdout) == []


def test_history_when_shown_then_says_what_each_version_changed(mesh: Mesh) -> None:
    first = SPEC.model_copy(update={"jobs": SPEC.jobs[:1]})
    versions = [PipelineVersion(version=n, at=AT, spec=spec) for n, spec in ((2, SPEC), (1, first))]
    mesh.answers({ShowPipelineHistory: PipelineHistory(versions=versions)})
    newest, oldest = mesh.run("history", "delays").stdout.splitlines()[1:]
    assert newest.split()[0] == "2"
    assert newest.split()[-1] == "+late"
    assert oldest.split()[0] == "1"


def test_history_when_it_comes_in_several_answers_then_all_of_it_is_shown(mesh: Mesh) -> None:
    async def answer(command: ShowPipelineHistory) -> PipelineHistory:
        number = 2 if command.before is None else command.before - 1
        version = PipelineVersion(version=number, at=AT, spec=SPEC)
        return PipelineHistory(versions=[version], older=number - 1 or None)

    mesh.answers({ShowPipelineHistory: answer})
    assert [line.split()[0] for line in mesh.run("history", "delays").stdout.splitlines()[1:]] == ["2", "1"]


def test_export_when_printed_then_reads_back_as_the_version_asked_for(mesh: Mesh) -> None:
    first = SPEC.model_copy(update={"jobs": SPEC.jobs[:1]})
    versions = {n: PipelineVersion(version=n, at=AT, spec=spec) for n, spec in ((2, SPEC), (1, first))}

    async def answer(command: ShowPipelineHistory) -> PipelineHistory:
        found = [*versions.values()] if command.version is None else [versions[command.version]]
        return PipelineHistory(versions=found)

    # Being deleted: the newest apply describes no jobs, and has no version.
    gone = pipeline_view(DONE).model_copy(update={"spec": SPEC.model_copy(update={"jobs": []})})
    mesh.answers({ShowPipelineHistory: answer, ShowPipeline: gone})
    for arguments, wanted in (((), SPEC), (("--version", "1"), first), (("--json",), SPEC)):
        printed = mesh.run("export", "delays", *arguments).stdout
        assert PipelineSpec.model_validate(yaml.safe_load(printed)) == wanted
    none = TowpathError(ErrorCode.INVALID, "delays has no such version", field="version", value=9)
    mesh.answers({ShowPipelineHistory: none})
    assert mesh.run("export", "delays", "--version", "9").exit_code == BAD_INPUT


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (
            ["rollback", "delays", "--to", "1"],
            RollbackPipeline(id="x", pipeline="delays", version=1, wait=False),
        ),
        (["rollback", "delays", "--now"], RollbackPipeline(id="x", pipeline="delays", now=True, wait=False)),
        (
            ["retry", "delays", "--at-once", "2"],
            RetryPipeline(id="x", pipeline="delays", at_once=2, wait=False),
        ),
        (
            ["delete", "delays", "--now", "--purge"],
            DeletePipeline(id="x", pipeline="delays", now=True, purge=True, wait=False),
        ),
    ],
)
def test_change_when_asked_for_then_is_sent_as_said_and_its_end_is_told(
    mesh: Mesh, arguments: list[str], command: Command[Any]
) -> None:
    mesh.answers({type(command): DONE})
    result = mesh.run(*arguments)
    assert (result.exit_code, "completed" in result.stdout) == (0, True)
    assert mesh.sent(type(command)).model_copy(update={"id": "x"}) == command


def test_delete_when_the_pipeline_is_gone_before_it_is_looked_at_then_that_is_its_end(mesh: Mesh) -> None:
    gone = TowpathError(ErrorCode.UNKNOWN_PIPELINE, "no such pipeline")

    async def begins(_: Command[Any]) -> ApplyView:
        await mesh.bus.tell(ApplyEnded(pipeline="delays", apply="a1", version=2, state=ApplyState.COMPLETED))
        return RUNNING

    mesh.answers({DeletePipeline: begins, ShowPipeline: gone})
    result = mesh.run("delete", "delays")
    assert (result.exit_code, "completed" in result.stdout) == (0, True)


def test_import_when_no_mesh_runs_then_the_plan_is_read_by_itself(tmp_path: Path) -> None:
    plan = str(EXAMPLES / "pipelines" / "plan-deploy.json")
    result = CliRunner().invoke(app, ["--home", str(tmp_path / "home"), "pipeline", "import", plan])
    assert result.exit_code == 0
    spec = PipelineSpec.model_validate(yaml.safe_load(result.stdout))
    assert (spec.name, len(spec.jobs)) == ("late", 2)
    applied = CliRunner().invoke(
        app, ["--home", str(tmp_path / "home"), "pipeline", "import", plan, "--apply"]
    )
    assert (applied.exit_code, "towpath up" in applied.stderr) == (FAILED, True)


def test_import_when_the_pipeline_is_there_then_the_plan_changes_it(mesh: Mesh, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    operation = {"task": "uninstall", "operation": "clean"}
    path.write_text(json.dumps({"plan": "delays", "operations": [operation]}))
    mesh.answers({ShowPipeline: pipeline_view(DONE), ApplyPipeline: DONE})
    assert "clean" not in [
        job["name"] for job in yaml.safe_load(mesh.run("import", str(path)).stdout)["jobs"]
    ]
    assert mesh.run("import", str(path), "--apply").exit_code == 0
    assert [job.name for job in mesh.sent(ApplyPipeline).spec.jobs] == ["late"]
    path.write_text(json.dumps({"plan": "delays", "operations": [{**operation, "operation": "missing"}]}))
    result = mesh.run("import", str(path))
    assert result.exit_code == BAD_INPUT
    assert result.stderr.startswith(f"{path}: operations[0].operation: no such job")


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["show", "delays"],
        ["history", "delays"],
        ["export", "delays"],
        ["rollback", "delays"],
        ["retry", "delays"],
        ["delete", "delays"],
        ["apply", str(EXAMPLES / "pipelines" / "delays-1.yaml")],
        ["plan", str(EXAMPLES / "speck" / "listing-1.yaml")],
        ["diff", str(EXAMPLES / "pipelines" / "delays-2.yaml")],
    ],
)
def test_command_when_no_mesh_runs_then_one_line_says_to_start_one(
    tmp_path: Path, arguments: list[str]
) -> None:
    result = CliRunner().invoke(app, ["--home", str(tmp_path / "home"), "pipeline", *arguments])
    assert (result.exit_code, result.stdout) == (FAILED, "")
    assert "towpath up" in result.stderr
    assert result.stderr.count("\n") == 1


async def test_progress_when_events_come_then_shows_states_and_the_step_under_way() -> None:
    progress = ApplyProgress(in_lines=False)
    running = JobApplied(
        pipeline="delays", apply="a1", job="late", actions=MOVE.actions, state=ChangeState.RUNNING
    )
    other = running.model_copy(update={"apply": "a0", "state": ChangeState.FAILED})
    progress.see(RUNNING)
    assert cells(progress) == [["late", "change, move jfk → cloud", "", "waiting", ""]]
    await progress.on_job(running)
    await progress.on_job(other)
    await progress.on_step(StepDone(operation="o1", job="late", step="ship-checkpoint", phase="confirmed"))
    assert cells(progress)[0][3:] == ["running", "ship-checkpoint confirmed"]
    assert "0 of 1 changes done" in str(progress.render().title)
    progress.see(DONE)
    assert cells(progress)[0][3:] == ["completed", ""]


def cells(progress: ApplyProgress) -> list[list[str]]:
    columns = [[str(cell) for cell in column.cells] for column in progress.render().columns]
    return [list(row) for row in zip(*columns, strict=True)]
