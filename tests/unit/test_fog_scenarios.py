"""The two scenarios of the fog demonstration: which job is where, and what crosses the links."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from towpath.checker.accepted import StoredEvent
from towpath.checker.identity import WindowIdentity
from towpath.composition.validation import SiteFacts, problems
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.pipeline import PipelineSpec
from towpath.lab.demonstration.fog.arrangement import Arrangement, arranged_pipeline
from towpath.lab.demonstration.fog.experiment import WARM_UP_RATE, FogOptions, results_since, turn
from towpath.lab.demonstration.fog.links import SITE_TO_SITE_MS, conditions, crossed
from towpath.lab.demonstration.fog.rates import COUNT
from towpath.lab.demonstration.pipeline import CLOUD, EDGES, SITES
from towpath.lab.harness.judge import StoredInput
from towpath.lab.harness.observer import ObservedJob
from towpath.lab.scenarios.checking import check_scenario
from towpath.lab.scenarios.probes import title


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


@pytest.mark.parametrize("arrangement", Arrangement)
def test_turn_when_described_then_jobs_warm_up_before_devices_send_at_the_rate(
    arrangement: Arrangement,
) -> None:
    scenario = turn(arrangement, 400.0, FogOptions())
    check_scenario(scenario)
    assert {load.rate for load in scenario.load} == {WARM_UP_RATE}
    [step] = scenario.timeline
    assert step.pace is not None
    assert (step.at, step.pace.rate) == (0, 400.0)
    assert {title(probe) for probe in scenario.steady_state} == {
        f"output gap {job}"
        for job in ("delays-all", *(f"{s}-{e}" for s in ("hourly", "delays") for e in EDGES))
    }


@pytest.mark.parametrize("values", [{"rates": ()}, {"rates": (100.0, 0.0)}, {"seconds": -1.0}])
def test_options_when_a_value_makes_no_sense_then_it_is_named(values: dict) -> None:
    with pytest.raises(TowpathError) as refused:
        FogOptions(**values)
    assert refused.value.detail.field in values


def test_options_when_the_file_has_not_that_many_departures_then_they_are_refused() -> None:
    with pytest.raises(TowpathError) as refused:
        FogOptions(rates=(100.0, 2000.0), seconds=20.0)
    assert (refused.value.detail.code, refused.value.detail.field) == (ErrorCode.INVALID, "rates")


def observed(job: str, *payloads: bytes) -> ObservedJob:
    """A job whose input holds these results of another."""
    spec = next(j.job_spec() for j in pipeline(Arrangement.FOG).jobs if j.name == job)
    events = [StoredEvent(serial, payload) for serial, payload in enumerate(payloads, start=1)]
    stored = StoredInput(spec.inputs[0].name, False, events)
    collector = SimpleNamespace(observations=[])
    return SimpleNamespace(spec=spec, inputs=[stored], collector=collector)  # type: ignore[return-value]


def departure(serial: int, stored_s: float, hour: int) -> bytes:
    at = datetime(2013, 1, 1, hour, tzinfo=UTC).isoformat()
    stored_at = datetime.fromtimestamp(stored_s, UTC).isoformat()
    values = {"carrier": "UA", "delay": 30.0, "departed_at": at}
    return json.dumps({"job": "up", "serial": serial, "stored_at": stored_at, "values": values}).encode()


def test_results_since_a_moment_when_jobs_warmed_up_before_then_count_only_events_of_later() -> None:
    closing = departure(4, 1003.0, 0).replace(b"2013-", b"2100-")
    cleaned = [departure(7, 999.0, 1), departure(8, 1001.0, 1), departure(9, 1002.0, 2), closing]
    # The job between them saw the second and the last of these: it is known by their serial numbers here.
    late = [departure(1, 1001.5, 1), departure(2, 1002.0, 1), closing]
    jobs = {f"hourly-{edge}": observed(f"hourly-{edge}", *cleaned) for edge in EDGES}
    jobs |= {f"delays-{edge}": observed(f"delays-{edge}", *late) for edge in EDGES}
    truth, _ = results_since(jobs, 1000.0)
    counted = Counter({job: 0 for job in jobs})
    for identity, values in truth.items():
        assert isinstance(identity, WindowIdentity)
        counted[identity.job] += values[COUNT]
    assert {counted[f"hourly-{edge}"] for edge in EDGES} == {2}
    assert {counted[f"delays-{edge}"] for edge in EDGES} == {1}
