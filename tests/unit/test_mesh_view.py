"""The picture of a mesh for placement, of jobs and of what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.composition.measurements import Measurements
from towpath.composition.mesh_view import EVENT_BYTES, LEAST_RATE, picture
from towpath.contracts.commands import EXAMPLE_SPEC, JobView
from towpath.contracts.metrics import Series
from towpath.contracts.pipeline import Demand, PipelineJob, Placement
from towpath.contracts.site import Capacity, PowerSpec, SiteLink, SiteSpec

NOW = 1_000.0
SITES = [
    SiteSpec(name="jfk", capacity=Capacity(cores=1.5, memory_mb=800)),
    SiteSpec(name="cloud", power=PowerSpec(idle_w=70, active_w=200)),
]


def measured(**values: float) -> Measurements:
    """Return values named `<site>, <entity>, <metric>`."""
    series = []
    for name, value in values.items():
        site, entity, metric = name.split(", ")
        series.append(Series(site=site, entity=entity, metric=metric, unit="1", points=[(NOW - 3, value)]))
    return Measurements(series)


def courses(**values: list[float]) -> list[Series]:
    """Return values ten seconds apart, named as in `measured`."""
    found = []
    for name, several in values.items():
        site, entity, metric = name.split(", ")
        points = [(NOW - 10 * (len(several) - number), value) for number, value in enumerate(several)]
        found.append(Series(site=site, entity=entity, metric=metric, unit="1", points=points))
    return found


def job(name: str, reads: str | None = None, **more: Any) -> JobView:
    """Return a job at `jfk` that reads devices, or another job's results."""
    source = {"name": "jfk/site/x", "site": "jfk", "stream": "IN", "subject": "site.x", "from_device": True}
    if reads is not None:
        source = {**source, "stream": f"OUT_{reads}", "subject": None, "from_device": False}
    status = {"job": name, "epoch": 1, "state": "running", "batch_s": more.pop("batch_s", 0.5)}
    output = {"site": "jfk", "stream": f"OUT_{name}", "topic": name, "rejected_topic": f"{name}/rejected"}
    document = {
        "spec": {**EXAMPLE_SPEC, "name": name, "site": "jfk", "trigger_s": 1.0},
        "site": "jfk",
        "epoch": 1,
        "state": "running",
        "operation": None,
        "inputs": [source],
        "output": output,
        "status": status,
        **more,
    }
    return JobView.model_validate(document)


def described(name: str, **more: Any) -> PipelineJob:
    return PipelineJob.model_validate({**EXAMPLE_SPEC, "name": name, **more})


def test_picture_when_jobs_were_measured_then_share_the_engine_by_the_time_they_are_busy() -> None:
    values = {
        "jfk, process:engine, process.cpu.utilization": 0.6,
        "jfk, job:clean, job.event_rate": 100.0,
        "jfk, job:clean, job.result_rate": 50.0,
    }

    view = picture(
        SITES, [job("clean"), job("mean", "clean", batch_s=0.25)], {}, measured(**values), NOW
    ).view

    assert [source.events_per_s for source in view.sources] == [100.0]
    assert view.job["mean"].inputs == ("clean",)
    assert view.rates_out["clean"] == 50.0
    assert {name: view.cores_of(each) for name, each in view.job.items()} == pytest.approx(
        {"clean": 0.4, "mean": 0.2}
    )
    assert view.age_s == 3.0


def test_picture_when_a_pipeline_says_what_a_job_needs_then_that_counts() -> None:
    known = described("clean", resources=Demand(cores=1.25, memory_mb=300))

    view = picture(SITES, [job("clean")], {"clean": known}, measured(), NOW).view

    assert view.cores_of(view.job["clean"]) == pytest.approx(1.25)
    assert view.job["clean"].memory_mb == 300
    assert view.sources[0].events_per_s == LEAST_RATE
    assert view.sources[0].bytes_per_event == EVENT_BYTES


def test_picture_when_sites_say_what_they_have_then_it_is_theirs() -> None:
    view = picture(SITES, [], {}, measured(), NOW).view

    assert (view.site["jfk"].cores, view.site["jfk"].memory_mb) == (1.5, 800)
    assert (view.site["cloud"].cores, view.site["cloud"].idle_w, view.site["cloud"].active_w) == (2, 70, 200)


def test_link_when_both_its_sites_pay_for_bytes_then_its_price_is_the_sum() -> None:
    priced = [
        SiteSpec(name="jfk", link=SiteLink(price_per_gb=2.0)),
        SiteSpec(name="cloud", link=SiteLink(price_per_gb=0.5)),
    ]

    [link] = picture(priced, [], {}, measured(**{"jfk, link:cloud, link.round_trip": 0.02}), NOW).view.links

    assert link.price_per_byte == pytest.approx(2.5e-9)


def test_links_when_two_sites_did_not_measure_each_other_then_lead_over_the_hub() -> None:
    values = {
        "jfk, link:hub, link.round_trip": 0.02,
        "cloud, link:hub, link.round_trip": 0.04,
        "cloud, link:jfk, link.round_trip": 0.1,
        "cloud, link:jfk, link.bandwidth": 1e6,
    }

    view = picture(SITES, [], {}, measured(**values), NOW).view

    assert view.link["jfk", "cloud"].latency_s == pytest.approx(0.03)
    assert (view.link["cloud", "jfk"].latency_s, view.link["cloud", "jfk"].bytes_per_s) == (0.05, 1e6)


def test_job_when_it_must_stay_then_is_pinned_and_the_reason_is_told() -> None:
    apart = described("apart", placement=Placement(apart_from=["other"]))
    moving = job("moving", operation="m1")

    seen = picture(
        SITES,
        [job("apart"), moving, job("free"), job("unasked")],
        {"apart": apart},
        measured(),
        NOW,
        {"apart", "moving", "free"},
    )

    assert {name: each.pinned for name, each in seen.view.job.items()} == {
        "apart": "jfk",
        "moving": "jfk",
        "free": None,
        "unasked": "jfk",
    }
    assert seen.stays == {
        "apart": "its place depends on other jobs",
        "moving": "an operation is under way",
        "unasked": "not asked to move",
    }


def test_job_when_its_pipeline_forbids_sites_then_may_run_at_the_others() -> None:
    known = described("clean", placement=Placement(forbidden=["cloud"]))

    view = picture(SITES, [job("clean")], {"clean": known}, measured(), NOW).view

    assert view.job["clean"].allowed == {"jfk"}


def test_picture_when_a_job_runs_away_from_its_output_then_the_output_stays() -> None:
    view = picture(SITES, [job("clean", site="cloud"), job("mean", "clean")], {}, measured(), NOW).view

    assert view.kept_at({"clean": "cloud", "mean": "cloud"})["clean"] == "jfk"


def test_picture_when_the_site_of_an_output_is_down_then_the_job_has_no_output_site() -> None:
    view = picture(SITES[1:], [job("clean", site="cloud")], {}, measured(), NOW).view

    assert view.job["clean"].output_site is None


EVENTS = [10.0, 20.0, 30.0, 40.0, 10.0, 20.0, 30.0, 40.0]
BATCHES: dict[str, list[float]] = {
    "jfk, process:engine, process.cpu.utilization": [0.7],
    "jfk, job:clean, job.event_rate": [50.0],
    "jfk, job:clean, job.batch.events": EVENTS,
    "jfk, job:clean, job.latency.processing.p50": [0.2 + 0.01 * events for events in EVENTS],
}


def test_picture_when_larger_micro_batches_take_longer_then_that_is_what_an_event_costs() -> None:
    view = picture(SITES, [job("clean")], {}, Measurements(courses(**BATCHES)), NOW).view

    clean = view.job["clean"]
    assert (clean.cpu_s_per_event, clean.fixed_cores) == (pytest.approx(0.01), pytest.approx(0.2))
    assert view.cores_of(clean) == pytest.approx(0.7)


def test_picture_when_a_job_falls_behind_then_more_comes_than_its_site_can_do() -> None:
    behind = courses(**BATCHES, **{"jfk, job:clean, job.backlog": [1000.0, 1500.0, 2000.0]})

    found = picture(SITES, [job("clean")], {}, Measurements(behind), NOW)

    clean, site = found.view.job["clean"], found.view.site["jfk"]
    assert [source.events_per_s for source in found.view.sources] == [pytest.approx(100.0)]
    assert site.cores == pytest.approx(0.7)
    assert found.view.event_cores_of(clean) == pytest.approx(1.4)
    assert found.waiting["clean"] == pytest.approx((2000 - 2 * 50 * 1.5) * 0.7 / 50)


def test_picture_when_a_battery_is_measured_and_a_site_fails_often_then_says_so() -> None:
    powered = [SiteSpec(name="jfk", power=PowerSpec(battery=True))]
    values = {"jfk, site, site.battery.charge": 0.4, "hub, site:jfk, site.availability": 0.9}

    site = picture(powered, [], {}, measured(**values), NOW).view.site["jfk"]

    assert (site.on_battery, site.battery_share, site.stability) == (True, 0.4, 0.9)


def test_picture_when_a_job_reads_nothing_at_times_then_it_is_not_slow() -> None:
    starting = courses(
        **{
            **BATCHES,
            "jfk, job:clean, job.event_rate": [0.0, 50.0],
            "jfk, job:clean, job.backlog": [1000.0, 2000.0],
        }
    )

    view = picture(SITES, [job("clean")], {}, Measurements(starting), NOW).view

    assert view.site["jfk"].cores == 1.5


def test_picture_when_jobs_wait_for_each_other_then_their_events_cost_no_more_than_the_site_has() -> None:
    slow = {
        **BATCHES,
        "jfk, job:clean, job.latency.processing.p50": [0.2 + 0.06 * events for events in EVENTS],
    }

    view = picture(SITES, [job("clean")], {}, Measurements(courses(**slow)), NOW).view

    assert view.event_cores_of(view.job["clean"]) == pytest.approx(1.5)
