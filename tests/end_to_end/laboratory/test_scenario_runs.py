"""Scenarios on a real mesh: findings, reports, restored state, and the end of interrupted runs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from running.command_line import MESH_TIMEOUT_S
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from running.whole_mesh import WholeMesh
from towpath.contracts.commands import DeployJob, JobView, ListJobs
from towpath.contracts.fault_commands import ListRules
from towpath.contracts.pipeline import PipelineSpec
from towpath.contracts.pipeline_commands import ApplyPipeline, ListPipelines
from towpath.contracts.scenario_load import StandardJob
from towpath.contracts.traces import ListTraces, ShowTrace, Span
from towpath.lab.harness.journal import FILE, read_journal
from towpath.lab.harness.stage import Stage, small_mesh, stage
from towpath.lab.harness.workload import spec_of
from towpath.lab.scenarios.playing import Play, play_on
from towpath.lab.scenarios.reading import read_document
from towpath.lab.scenarios.report import RunReport
from towpath.mesh.home import Home
from towpath.streams.pages import last_serial
from towpath.telemetry.trace_tree import is_unfinished, orphans

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S + 900)


@pytest.fixture
async def up(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(Home(tmp_path / "mesh"), small_mesh(("jfk", "cloud"))) as running:
        yield running


async def play(up: Stage, name: str, output: Path, seed: int = 0) -> RunReport:
    return await play_on(up, Play(patient(read_document(name)), name, seed), output)


def patient(document: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario with time limits for a shared machine. It ends once the steady state is back."""
    phases, expect = document["phases"] | {"after_s": "240s"}, dict(document.get("expect", {}))
    if "recovers_within_s" in expect:
        expect["recovers_within_s"] = "220s"
    return document | {"phases": phases, "expect": expect}


async def left_behind(up: Stage) -> list[str]:
    rules = (await up.bus.request(ListRules(), deadline_s=WITHIN_S)).rules
    jobs = (await up.bus.request(ListJobs(), deadline_s=WITHIN_S)).jobs
    return [*(view.rule.name for view in rules), *(view.spec.name for view in jobs)]


async def test_scenarios_when_run_one_after_another_then_find_what_is_there_and_leave_nothing(
    up: Stage, tmp_path: Path
) -> None:
    moved = await play(up, "handover-without-faults", tmp_path / "moved")
    assert moved.problems == []
    assert [str(move.state) for move in moved.migrations] == ["completed"]
    assert await left_behind(up) == []

    lost = await play(up, "results-lost-at-sink", tmp_path / "lost")
    assert lost.problems == []
    assert lost.total("lost") >= 1, "the checker finds the planted bug"
    assert lost.rules[0].acted >= 1
    assert await left_behind(up) == []

    killed = await play(up, "engine-killed-mid-batch", tmp_path / "killed")
    assert killed.problems == []
    assert killed.deviated
    assert killed.recovered_s is not None
    assert killed.total("lost") == killed.total("duplicated") == killed.total("wrong") == 0

    kinds = {line["kind"] for line in read_journal(tmp_path / "killed")}
    assert kinds >= {"begun", "phase", "loaded", "deviated", "steady", "unloaded", "verdict", "ended"}
    assert "Everything was as the scenario expects." in (tmp_path / "killed" / "report.md").read_text()
    assert (tmp_path / "killed" / "run.png").stat().st_size > 10_000


@promise("scenarios")
def test_scenario_when_it_plants_a_bug_in_a_mesh_that_runs_then_the_checker_finds_it_and_nothing_stays(
    shared_mesh: WholeMesh, tmp_path: Path
) -> None:
    """The probes and times hold on a busy machine, too: the bug is planted once results flow."""
    planted = read_document("results-lost-at-sink")
    flowing = [*STEADY, {"probe": "output_gap", "job": "counted", "at_most_s": 60}]
    planted |= {"steady_state": flowing, "expect": {"lost": {"at_least": 1}}}
    patient = {"begin_within_s": "240s", "after_s": "240s"}
    planted["phases"] = {"before_s": "1s", "during_s": "20s", "steady_s": "1s", **patient}
    planted["timeline"][0]["load"][0]["every"] = 2
    scenario = tmp_path / "planted.yaml"
    scenario.write_text(json.dumps(planted))
    before = [job["spec"]["name"] for job in shared_mesh.json("jobs")]

    run = shared_mesh.call(
        *("scenario", "run", str(scenario), "--home", str(shared_mesh.home)),
        *("--output", str(tmp_path / "run"), "--json"),
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert shared_mesh.json("faults", "list") == []
    assert [job["spec"]["name"] for job in shared_mesh.json("jobs")] == [
        job["spec"]["name"] for job in before
    ]


async def run_beside(up: Stage, output: Path, *, name: str) -> asyncio.subprocess.Process:
    command = (sys.executable, "-m", "towpath.cli", "scenario", "run", name)
    arguments = ("--home", str(up.home.root), "--output", str(output), "--json")
    return await asyncio.create_subprocess_exec(*command, *arguments, stdout=asyncio.subprocess.PIPE)


async def until_journal_has(output: Path, text: str) -> None:
    path = output / FILE
    await eventually(lambda: path.exists() and text in path.read_text(), within_s=3 * WITHIN_S)


async def until_loaded(output: Path) -> None:
    """Wait until a run has loaded its rules."""
    await until_journal_has(output, '"kind": "loaded"')


async def test_scenario_when_interrupted_or_killed_then_no_rule_stays(up: Stage, tmp_path: Path) -> None:
    endless = tmp_path / "endless.yaml"
    document: dict[str, Any] = {**read_document("sink-publish-delayed"), "phases": {"during_s": 600}}
    endless.write_text(json.dumps(document))

    interrupted = await run_beside(up, tmp_path / "interrupted", name=str(endless))
    await until_loaded(tmp_path / "interrupted")
    os.kill(interrupted.pid, signal.SIGINT)
    assert await asyncio.wait_for(interrupted.wait(), 3 * WITHIN_S) == 130
    assert await left_behind(up) == []
    assert read_journal(tmp_path / "interrupted")[-1]["phase"] == "ended"

    killed = await run_beside(up, tmp_path / "killed", name=str(endless))
    await until_loaded(tmp_path / "killed")
    killed.kill()
    await killed.wait()
    # It takes the lease, and the time until the injector notices its end. The run's job stays deployed.

    async def no_rule_is_left() -> bool:
        return not (await up.bus.request(ListRules(), deadline_s=WITHIN_S)).rules

    await eventually(no_rule_is_left)


STEADY = [{"probe": "site_up", "site": "jfk"}]


def forwarding(name: str, **changes: Any) -> dict[str, Any]:
    content = {
        "name": name,
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": "site/scenario"}],
        "output": {"site": "jfk", "topic": f"out/{name}"},
        "operator": {"kind": "forward"},
    }
    return content | changes


def pipeline(*jobs: dict[str, Any]) -> dict[str, Any]:
    return {"name": "theirs", "jobs": list(jobs)}


async def play_document(up: Stage, document: dict[str, Any], output: Path) -> RunReport:
    return await play_on(up, Play(document, "document", 0), output)


async def standing(up: Stage) -> dict[str, Any]:
    """Return jobs and pipelines as a user sees them."""
    jobs = (await up.bus.request(ListJobs(), deadline_s=WITHIN_S)).jobs
    pipelines = (await up.bus.request(ListPipelines(), deadline_s=WITHIN_S)).pipelines
    return {
        "jobs": {view.spec.name: (view.spec, view.site, view.pipeline, view.output) for view in jobs},
        "pipelines": {view.pipeline: view.spec for view in pipelines},
    }


async def results_of(up: Stage, view: JobView) -> int:
    return await last_serial(up.bus.connection, view.output.site, view.output.stream)


async def test_scenario_when_jobs_and_pipelines_were_there_before_then_all_is_as_it_was(
    up: Stage, tmp_path: Path
) -> None:
    counted = spec_of(StandardJob(name="counted", workload="windows", site="jfk"))
    described = PipelineSpec.model_validate(pipeline(forwarding("a"), forwarding("b")))
    await up.bus.request(DeployJob(spec=counted), deadline_s=2 * WITHIN_S)
    await up.bus.request(ApplyPipeline(spec=described), deadline_s=2 * WITHIN_S)
    before = await standing(up)
    document: dict[str, Any] = {
        "name": "changes-what-is-there",
        "mesh": {"jobs": ["counted"]},
        "jobs": [{"name": "mine", "workload": "cleaned", "site": "jfk", "topic": "site/mine"}],
        "load": [{"site": "jfk", "rate": 50}, {"site": "jfk", "rate": 50, "topic": "site/mine"}],
        "steady_state": STEADY,
        "phases": {"during_s": 12},
        "timeline": [
            {
                "at": 0,
                "load": [
                    {
                        "name": "slow",
                        "event": {"point": "sink.publish"},
                        "actions": [{"fault": "delay", "parameters": {"ms": 1}}],
                    }
                ],
            },
            {"at": 0, "scale": {"job": "counted", "trigger_s": 2}},
            {"at": 0, "migrate": {"job": "counted", "to": "cloud"}},
            {
                "at": 0,
                "apply": pipeline(
                    forwarding("a", trigger_s=3), forwarding("b", site="cloud"), forwarding("c")
                ),
            },
        ],
    }
    report = await play_document(up, document, tmp_path / "changed")
    assert report.problems == []
    assert await standing(up) == before
    views = {view.spec.name: view for view in (await up.bus.request(ListJobs(), deadline_s=WITHIN_S)).jobs}
    assert [await results_of(up, views[name]) > 0 for name in ("counted", "a", "b")] == [True, True, True]
    assert (await up.bus.request(ListRules(), deadline_s=WITHIN_S)).rules == []
    await assert_one_trace(up, report)

    removing = {**document, "mesh": {}, "jobs": [], "load": [], "timeline": [], "pipeline": pipeline()}
    refused = await play_document(up, removing, tmp_path / "refused")
    assert "could not be put back" in refused.problems[0]
    assert await standing(up) == before

    endless = tmp_path / "endless.yaml"
    endless.write_text(json.dumps({**document, "phases": {"during_s": 600}}))
    interrupted = await run_beside(up, tmp_path / "interrupted", name=str(endless))
    await until_journal_has(tmp_path / "interrupted", '"pipeline": "theirs"')
    os.kill(interrupted.pid, signal.SIGINT)
    assert await asyncio.wait_for(interrupted.wait(), 3 * WITHIN_S) == 130
    assert await standing(up) == before


async def assert_one_trace(up: Stage, report: RunReport) -> None:
    """Check that everything that a run caused belongs to one trace, and began no other."""

    async def whole() -> list[Span] | None:
        """Return the spans once none of them lacks its parent or its end."""
        spans = (await up.bus.request(ShowTrace(about=report.run), deadline_s=WITHIN_S)).spans
        return None if orphans(spans) or any(is_unfinished(span) for span in spans) else spans

    spans = await eventually(whole)
    assert [span.name for span in spans if span.parent is None] == [f"scenario {report.scenario}"]
    commands = {span.name for span in spans}
    assert commands >= {"restore", "serve rollback-pipeline", "serve load-rules", "serve unload-rules"}
    traces = (await up.bus.request(ListTraces(limit=200), deadline_s=WITHIN_S)).traces
    # What the test itself had deployed and applied before the run, whether or not it writes spans itself.
    others = ["apply-pipeline", "deploy"]
    names = sorted(one.name.removeprefix("serve ").removeprefix("request ") for one in traces)
    assert names == [*others, f"scenario {report.scenario}"]


async def test_command_line_when_asked_then_lists_and_shows_scenarios(tmp_path: Path) -> None:
    async def towpath(*arguments: str) -> tuple[int, str]:
        command = (sys.executable, "-m", "towpath.cli", "scenario", *arguments)
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await asyncio.wait_for(process.communicate(), WITHIN_S)
        return process.returncode or 0, output.decode()

    assert "engine-killed-mid-batch" in (await towpath("list"))[1]
    shown = await towpath("show", "lossy-link")
    assert (shown[0], "fault: lossy" in shown[1]) == (0, True)
    copy = tmp_path / "copy.yaml"
    copy.write_text(shown[1])
    assert (await towpath("show", str(copy)))[0] == 0
    code, complaint = await towpath("run", "lossy-lnk")
    assert (code, "no such scenario" in complaint) == (2, True)
