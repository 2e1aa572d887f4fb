"""The two scenarios of the fog demonstration: which job is where, and what crosses the links."""

from __future__ import annotations

import pytest

from towpath.composition.validation import SiteFacts, problems
from towpath.contracts.pipeline import PipelineSpec
from towpath.lab.demonstration.fog.arrangement import Arrangement, arranged_pipeline
from towpath.lab.demonstration.fog.links import SITE_TO_SITE_MS, conditions, crossed
from towpath.lab.demonstration.pipeline import CLOUD, EDGES, SITES


def pipeline(scenario: Arrangement) -> PipelineSpec:
    return arranged_pipeline(scenario, EDGES, watermark_s=90_000, trigger_s=3.0)


@pytest.mark.parametrize("scenario", Arrangement)
def test_scenario_when_checked_like_any_pipeline_then_nothing_is_wrong_with_its_thirteen_jobs(
    scenario: Arrangement,
) -> None:
    spec = pipeline(scenario)
    assert len(spec.jobs) == 13
    assert problems(spec, sites={s: SiteFacts(up=True) for s in SITES}, mine={}, others={}) == []


def test_fog_when_described_then_jobs_are_where_the_data_is_and_only_late_departures_cross() -> None:
    spec = pipeline(Arrangement.FOG)
    at = {job.name: job.site for job in spec.jobs}
    for edge in EDGES:
        assert [at[f"{stage}-{edge}"] for stage in ("clean", "late", "hourly")] == [edge] * 3
        assert at[f"delays-{edge}"] == CLOUD
    assert {job.name for job in spec.jobs if job.output_site != job.site} == {f"late-{e}" for e in EDGES}
    assert all(entry.site == job.site for job in spec.jobs for entry in job.inputs)


def test_cloud_when_described_then_all_jobs_are_there_and_what_devices_send_crosses() -> None:
    spec = pipeline(Arrangement.CLOUD)
    assert {(job.site, job.output_site) for job in spec.jobs} == {(CLOUD, CLOUD)}
    remote = {job.name for job in spec.jobs if any(entry.site != CLOUD for entry in job.inputs)}
    assert remote == {f"clean-{edge}" for edge in EDGES}


def test_scenarios_when_compared_then_they_compute_the_same() -> None:
    fog, cloud = pipeline(Arrangement.FOG), pipeline(Arrangement.CLOUD)
    assert [(j.name, j.operator, j.trigger_s) for j in fog.jobs] == [
        (j.name, j.operator, j.trigger_s) for j in cloud.jobs
    ]


def test_links_when_two_lie_in_a_row_then_they_take_the_papers_latency() -> None:
    assert 2 * conditions(1_000).delay_ms == SITE_TO_SITE_MS


def test_crossed_bytes_when_counted_then_those_of_the_clouds_link_are_apart() -> None:
    before, after = {"jfk": 10, "lga": 20, "cloud": 30}, {"jfk": 110, "lga": 220, "cloud": 1030}
    found = crossed(before, after, "cloud")
    assert (found.edge_links, found.cloud_link, found.total) == (300, 1000, 1300)
