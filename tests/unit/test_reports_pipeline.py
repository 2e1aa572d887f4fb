"""The page on a pipeline: jobs and edges, versions and what they changed, the last hour."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from report_trial import check_self_contained

from towpath.contracts.commands import JobView
from towpath.contracts.job import JobState, ResolvedOutput
from towpath.contracts.metrics import Series
from towpath.contracts.pipeline import ApplyView, PipelineSpec, PipelineVersion, PipelineView
from towpath.reports.facts import PipelineFacts, ReadSeries
from towpath.reports.graph_picture import stages
from towpath.reports.pipeline import pipeline_page

AT = datetime(2026, 1, 1, tzinfo=UTC)


def job(name: str, reads: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": reads}],
        "output": {"topic": f"out/{name}"},
        "operator": {"kind": "filter", "fields": {"delay": "double"}, "where": "delay > 15"},
        **changes,
    }


def spec(*jobs: dict[str, Any]) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "delays", "jobs": list(jobs)})


NEW = spec(job("first", "site/departures", trigger_s=2.0), job("second", "out/first"))
OLD = spec(job("first", "site/departures"), job("third", "out/first"))


def running(name: str, site: str = "jfk") -> JobView:
    wanted = next(one for one in NEW.jobs if one.name == name)
    output = ResolvedOutput(site="jfk", stream="OUT", topic=wanted.output.topic, rejected_topic="r")
    return JobView(
        spec=wanted.job_spec(),
        site=site,
        epoch=1,
        state=JobState.RUNNING,
        operation=None,
        status=None,
        output=output,
    )


def facts(**changes: Any) -> PipelineFacts:
    apply = ApplyView.model_validate(
        {
            "apply": "a1",
            "pipeline": "delays",
            "version": 2,
            "state": "completed",
            "begun_at": AT,
            "changes": [],
        }
    )
    points = [(time.time() - 60 * age, 300.0 + age) for age in range(30, 0, -1)]
    series = Series(site="jfk", entity="job:first", metric="job.event_rate", unit="{event}/s", points=points)
    content: dict[str, Any] = {
        "view": PipelineView(
            pipeline="delays", version=2, spec=NEW, apply=apply, job_versions={"first": 2, "second": 2}
        ),
        "versions": [
            PipelineVersion(version=2, at=AT, spec=NEW),
            PipelineVersion(version=1, at=AT, spec=OLD),
        ],
        "jobs": [running("first"), running("second", "cloud")],
        "measured": ReadSeries([series]),
    }
    return PipelineFacts(**(content | changes))


def test_page_when_everything_is_known_then_shows_graph_versions_and_measurements() -> None:
    page = check_self_contained(pipeline_page(facts()))
    assert page.titles == [
        "Pipeline delays",
        "Jobs and edges",
        "Versions",
        "Version 2",
        "Version 1",
        "What the jobs did in the last hour",
        "first",
        "second",
    ]
    assert len(page.pictures) == 2
    for part in (
        "2 jobs, of which 2 run; its version 2 is applied",
        "2 jobs (1 at cloud, 1 at jfk); 1 of them read what devices send, and along 1 edges",
        "trigger_s: 1.0 → 2.0",
        "second: added.",
        "third: removed.",
        "Throughput: 316 on average at jfk, 330 events/s at most.",
        "No site measured anything of second",
    ):
        assert part in page.text


def test_page_when_no_job_runs_and_no_one_was_asked_then_says_so() -> None:
    nothing = facts(jobs=[], versions=[], measured=ReadSeries(failure="silent"))
    page = check_self_contained(pipeline_page(nothing))
    assert "0 run" in page.text
    assert "does not run" in page.text
    assert "There are no measurements: silent." in page.text


def test_stages_when_jobs_read_each_other_in_a_circle_then_stand_in_one() -> None:
    assert stages({"a": set(), "b": {"a"}, "c": {"a", "b"}}) == [["a"], ["b"], ["c"]]
    assert stages({"a": {"b"}, "b": {"a"}}) == [["a", "b"]]
    assert stages({"a": {"a"}}) == [["a"]]
