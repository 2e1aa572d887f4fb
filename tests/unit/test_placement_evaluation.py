"""Figures of small placements, computed by hand, and views that are refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from towpath.placement.jobs.evaluation import arrivals, evaluate
from towpath.placement.jobs.hub_links import links_over_hub
from towpath.placement.jobs.moves import Move
from towpath.placement.jobs.price import Price, price_of
from towpath.placement.jobs.view import Job, Link, MeshView, Site, Source, avoiding, barring

SITES = (Site("edge", 2, 1000, 4, 8), Site("cloud", 10, 8000, 70, 200))
UPLINK = Link("edge", "cloud", latency_s=0.02, bytes_per_s=50_000, price_per_byte=0.001)
SENSORS = Source("sensors", "edge", events_per_s=100, bytes_per_event=200)
CLEAN = Job("clean", ("sensors",), cpu_s_per_event=0.01, memory_mb=500, factor=0.5, bytes_per_event=100)
COUNT = Job("count", ("clean",), cpu_s_per_event=0.02, memory_mb=400, state_bytes=1_000_000)
VIEW = MeshView(SITES, (UPLINK,), (SENSORS,), (COUNT, CLEAN))


def test_rates_when_a_job_drops_half_then_are_those_of_its_input_times_its_factor() -> None:
    assert VIEW.rates_out == {"sensors": 100, "clean": 50, "count": 50}
    assert [VIEW.cores_of(job) for job in VIEW.order] == [1, 1]


def test_evaluation_when_a_path_crosses_a_link_then_has_latency_batch_and_bytes() -> None:
    found = evaluate(VIEW, {"clean": "edge", "count": "cloud"})

    assert found.latency_s == pytest.approx(0.02 + 50 * 100 / 50_000)
    assert found.critical_path == ("sensors", "clean", "count")
    assert found.link_bytes_per_s == {("edge", "cloud"): 5000}
    assert found.link_price_per_h == pytest.approx(5000 * 0.001 * 3600)
    assert found.feasible


def test_evaluation_when_power_is_linear_then_adds_utilisation_to_idle() -> None:
    found = evaluate(replace(VIEW, joules_per_byte=0.001), {"clean": "edge", "count": "cloud"})

    assert found.added_w == pytest.approx(4 / 2 + 130 / 10 + 5)
    assert found.power_w == pytest.approx(found.added_w + 74)


def test_evaluation_when_packets_are_lost_then_takes_longer_by_those_sent_again() -> None:
    lossy = replace(VIEW, links=(replace(UPLINK, loss=0.2),), hop_penalty_s=0.003)

    found = evaluate(lossy, {"clean": "edge", "count": "cloud"})

    assert found.latency_s == pytest.approx(0.12 / 0.8 + 0.003)


def test_evaluation_when_results_are_kept_elsewhere_then_their_way_there_and_back_counts() -> None:
    kept = replace(VIEW, jobs=(COUNT, replace(CLEAN, output_site="edge")))

    found = evaluate(kept, {"clean": "cloud", "count": "cloud"})

    assert found.latency_s == pytest.approx(3 * 0.02 + (20_000 + 2 * 5000) / 50_000)
    assert found.link_bytes_per_s == {("edge", "cloud"): 25_000, ("cloud", "edge"): 5000}


def test_arrivals_when_work_waits_at_a_site_then_all_jobs_there_are_later() -> None:
    found = arrivals(VIEW, {"clean": "edge", "count": "edge"}, {"edge": 2.0})

    assert (found["clean"], found["count"]) == (2.0, 4.0)


def test_evaluation_when_two_ends_are_apart_then_means_both_and_names_the_slower() -> None:
    here = replace(CLEAN, name="here")
    view = replace(VIEW, jobs=(here, CLEAN, COUNT))

    found = evaluate(view, {"here": "edge", "clean": "edge", "count": "cloud"})

    assert found.critical_path[-1] == "count"
    assert found.mean_latency_s == pytest.approx(found.latency_s / 2)


def test_evaluation_when_two_jobs_read_one_stream_at_a_site_then_it_is_sent_once() -> None:
    other = replace(CLEAN, name="other")
    view = replace(VIEW, jobs=(CLEAN, other))

    found = evaluate(view, {"clean": "cloud", "other": "cloud"})

    assert found.link_bytes_per_s == {("edge", "cloud"): 20_000}


@pytest.mark.parametrize(
    ("view", "placement", "lacking"),
    [
        (replace(VIEW, sites=(replace(SITES[0], cores=1.5), SITES[1])), ("edge", "edge"), "cores"),
        (replace(VIEW, sites=(replace(SITES[0], memory_mb=800), SITES[1])), ("edge", "edge"), "memory"),
        (replace(VIEW, links=(replace(UPLINK, bytes_per_s=4000),)), ("edge", "cloud"), "bandwidth"),
        (replace(VIEW, links=()), ("edge", "cloud"), "link"),
        (avoiding(VIEW, {"cloud"}), ("edge", "cloud"), "permission"),
        (barring(VIEW, {("count", "cloud")}), ("edge", "cloud"), "permission"),
    ],
)
def test_evaluation_when_something_is_short_then_says_what(
    view: MeshView, placement: tuple[str, str], lacking: str
) -> None:
    found = evaluate(view, dict(zip(("clean", "count"), placement, strict=True)))

    assert [shortage.lacking for shortage in found.shortages] == [lacking]
    assert "count" in str(found.shortages[0])


def test_evaluation_when_checks_need_more_than_is_left_then_look_at_a_share() -> None:
    checking = replace(CLEAN, check_cpu_s_per_event=0.04)
    view = replace(VIEW, jobs=(checking, COUNT))

    beside = evaluate(view, {"clean": "edge", "count": "cloud"})
    together = evaluate(view, {"clean": "edge", "count": "edge"})

    assert (beside.checked_share, together.checked_share) == (pytest.approx(0.25), 0)
    assert beside.added_w == pytest.approx(4 + 13)


def test_link_when_none_leads_back_then_serves_both_directions() -> None:
    down = Link("cloud", "edge", latency_s=0.5)

    assert VIEW.link["cloud", "edge"] == UPLINK
    assert replace(VIEW, links=(UPLINK, down)).link["cloud", "edge"] == down
    assert replace(VIEW, links=(UPLINK, down)).link["edge", "cloud"] == UPLINK


def test_links_over_hub_when_two_are_joined_then_latencies_add_and_the_narrower_counts() -> None:
    to_hub = [Link("a", "hub", 0.01, 100, loss=0.1), Link("b", "hub", 0.02, 50, loss=0.2)]

    there, back = links_over_hub(to_hub)

    assert (there.origin, there.target, there.latency_s, there.bytes_per_s) == ("a", "b", 0.03, 50)
    assert there.loss == pytest.approx(0.28)
    assert (back.origin, back.target) == ("b", "a")


def test_price_when_state_moves_over_a_link_then_counts_its_seconds_and_bytes() -> None:
    price = price_of(VIEW, [Move("count", "edge", "cloud"), Move("clean", "cloud", "edge")])

    assert price == Price(seconds=pytest.approx(20.02 + 0.02), state_bytes=1_000_000, money=1000)
    assert price_of(replace(VIEW, links=()), [Move("count", "edge", "cloud")]).seconds == math.inf


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"jobs": (COUNT, replace(CLEAN, inputs=("count",)))}, "wait for each other"),
        ({"jobs": (COUNT,)}, "'clean' is unknown"),
        ({"jobs": (CLEAN, CLEAN)}, "there twice"),
        ({"jobs": (replace(CLEAN, pinned="mars"),)}, "'mars' is unknown"),
        ({"sources": (replace(SENSORS, site="mars"),)}, "'mars' is unknown"),
        ({"links": (replace(UPLINK, target="mars"),)}, "'mars' is unknown"),
        ({"batch_s": -1}, "batch_s is -1"),
    ],
)
def test_view_when_it_contradicts_itself_then_is_refused(change: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        replace(VIEW, **change)


def test_site_when_a_share_is_above_1_then_is_refused() -> None:
    with pytest.raises(ValueError, match=r"battery_share is 1\.5; allowed: from 0 to 1"):
        Site("edge", 1, 1, battery_share=1.5)
