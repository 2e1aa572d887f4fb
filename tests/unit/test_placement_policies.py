"""Policies on meshes small enough to know the answer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from towpath.placement.jobs.evaluation import evaluate
from towpath.placement.jobs.moves import Move
from towpath.placement.jobs.policies.registry import POLICIES, policy
from towpath.placement.jobs.policy import NoFeasiblePlacement
from towpath.placement.jobs.price import price_of
from towpath.placement.jobs.view import Job, Link, MeshView, Site, Source, avoiding

PI = Site("pi", 4, 4000, 4, 8)
SERVER = Site("server", 16, 16_000, 70, 200)
VIEW = MeshView(
    sites=(PI, replace(PI, name="battery", on_battery=True, active_w=5), SERVER),
    links=(Link("pi", "battery", 0.01), Link("pi", "server", 0.02), Link("battery", "server", 0.02)),
    sources=(Source("sensors", "server", 100),),
    jobs=(
        Job("clean", ("sensors",), 0.01, 500),
        Job("count", ("clean",), 0.01, 500),
        Job("alarm", ("count",), 0.01, 500),
    ),
)
NAMES = ("clean", "count", "alarm")


def test_baseline_when_all_may_run_anywhere_then_goes_round() -> None:
    assert policy("baseline").place(VIEW) == dict(zip(NAMES, ("pi", "battery", "server"), strict=True))
    assert policy("baseline").place(VIEW, seed=1) == dict(
        zip(NAMES, ("battery", "server", "pi"), strict=True)
    )


def test_baseline_when_a_job_is_pinned_then_leaves_it_there() -> None:
    view = replace(VIEW, jobs=(VIEW.jobs[0], replace(VIEW.jobs[1], pinned="server"), VIEW.jobs[2]))

    assert policy("baseline").place(view) == dict(zip(NAMES, ("pi", "server", "pi"), strict=True))


def test_performance_when_the_source_has_room_then_stays_there() -> None:
    assert policy("performance").place(VIEW) == dict.fromkeys(NAMES, "server")


@pytest.mark.parametrize("name", ["performance", "quality", "energy"])
def test_policy_when_sites_are_alike_then_takes_the_one_with_the_cheaper_link(name: str) -> None:
    sites = (Site("gate", 0, 0), Site("dear", 4, 4000), Site("cheap", 4, 4000))
    links = (
        Link("gate", "dear", 0.02, price_per_byte=2e-9),
        Link("gate", "cheap", 0.02, price_per_byte=1e-9),
    )
    source = Source("in", "gate", 100, bytes_per_event=200)

    placement = policy(name).place(MeshView(sites, links, (source,), (Job("clean", ("in",), 0.01, 10),)))

    assert placement == {"clean": "cheap"}


def test_energy_when_power_is_alike_then_a_cheaper_link_comes_before_a_faster_one() -> None:
    sites = (Site("gate", 0, 0), Site("fast", 4, 4000), Site("cheap", 4, 4000))
    links = (Link("gate", "fast", 0.01, price_per_byte=1e-9), Link("gate", "cheap", 0.02))
    source = Source("in", "gate", 100, bytes_per_event=200)
    view = MeshView(sites, links, (source,), (Job("clean", ("in",), 0.01, 10),))

    assert policy("energy").place(view) == {"clean": "cheap"}
    assert policy("performance").place(view) == {"clean": "fast"}


def test_performance_when_sites_are_as_near_then_stronger_ones_get_more() -> None:
    sites = (Site("gate", 0, 0), Site("weak", 2, 4000), Site("strong", 6, 4000))
    links = (Link("gate", "weak", 0.02), Link("gate", "strong", 0.02), Link("weak", "strong", 0.02))
    jobs = tuple(Job(f"job{number}", ("in",), 1, 10) for number in range(4))
    view = MeshView(sites, links, (Source("in", "gate", 1),), jobs)

    placement = policy("performance").place(view)

    assert [*placement.values()].count("strong") == 3


def test_energy_when_a_battery_needs_least_then_takes_the_next_site() -> None:
    assert policy("energy").place(VIEW) == dict.fromkeys(NAMES, "pi")


def test_energy_when_only_batteries_have_room_then_takes_the_fuller_one() -> None:
    fuller = Site("fuller", 4, 4000, 4, 8, on_battery=True, battery_share=0.9)
    emptier = replace(fuller, name="emptier", battery_share=0.2, active_w=5)
    links = (Link("fuller", "emptier", 0.01), Link("fuller", "server", 0.01), Link("emptier", "server", 0.01))
    view = replace(VIEW, sites=(fuller, emptier, replace(SERVER, cores=0)), links=links)

    assert policy("energy").place(view) == dict.fromkeys(NAMES, "fuller")


@pytest.mark.parametrize("weight", [0.1, 0.5, 0.9])
def test_energy_when_its_weight_is_between_then_lies_between_the_extremes(weight: float) -> None:
    spread = tuple(replace(job, cpu_s_per_event=0.02 + 0.005 * n) for n, job in enumerate(VIEW.jobs))
    view = replace(VIEW, jobs=spread)
    fastest, between, leanest = (
        evaluate(view, policy("energy", weight=each).place(view)) for each in (0, weight, 1)
    )

    assert fastest.latency_s <= between.latency_s <= leanest.latency_s
    assert leanest.added_w <= between.added_w <= fastest.added_w


def test_energy_when_its_weight_is_0_then_is_performance() -> None:
    assert policy("energy", weight=0).place(VIEW) == policy("performance").place(VIEW)


def test_quality_when_no_place_is_faster_then_checks_most() -> None:
    clean = replace(VIEW.jobs[0], check_cpu_s_per_event=0.05)
    servers = (replace(SERVER, cores=3), replace(SERVER, name="other", cores=9))
    links = (Link("server", "other", 0),)
    view = replace(VIEW, sites=servers, links=links, jobs=(clean, VIEW.jobs[1]))

    placement = policy("quality").place(view)

    assert placement["clean"] == "other"
    assert evaluate(view, placement).checked_share == 1


def test_quality_when_beta_grows_then_pays_latency_for_checks() -> None:
    clean = replace(VIEW.jobs[0], pinned="pi", cpu_s_per_event=0, check_cpu_s_per_event=0.04)
    count = replace(VIEW.jobs[1], cpu_s_per_event=0.03)
    view = replace(VIEW, jobs=(clean, count))

    shares = [evaluate(view, policy("quality", beta=beta).place(view)).checked_share for beta in (0, 0.5, 1)]

    assert shares == [0.25, pytest.approx(0.25), 1]


@pytest.mark.parametrize("name", ["performance", "quality", "energy"])
@pytest.mark.parametrize(
    ("change", "job", "lacking"),
    [
        ({"cpu_s_per_event": 1.0}, "count", "cores"),
        ({"memory_mb": 20_000.0}, "count", "memory"),
        ({"allowed": frozenset()}, "count", "permission"),
    ],
)
def test_policy_when_a_job_fits_nowhere_then_names_it_and_what_it_lacks(
    name: str, change: dict, job: str, lacking: str
) -> None:
    view = replace(VIEW, jobs=(VIEW.jobs[0], replace(VIEW.jobs[1], **change), VIEW.jobs[2]))

    with pytest.raises(NoFeasiblePlacement, match="there is no place for job 'count'") as caught:
        policy(name).place(view)

    assert (caught.value.job, caught.value.lacking, caught.value.proven) == (job, lacking, True)


def test_policy_when_jobs_fit_alone_but_not_together_then_says_so() -> None:
    jobs = tuple(replace(job, cpu_s_per_event=0.1, allowed=frozenset({"server"})) for job in VIEW.jobs)

    with pytest.raises(NoFeasiblePlacement) as caught:
        policy("performance").place(replace(VIEW, jobs=jobs))

    assert (caught.value.lacking, caught.value.proven) == ("cores", True)


def test_policy_when_a_link_is_too_narrow_then_names_it() -> None:
    links = tuple(replace(link, bytes_per_s=10) for link in VIEW.links)
    sources = (replace(VIEW.sources[0], bytes_per_event=100),)
    view = avoiding(replace(VIEW, links=links, sources=sources), {"server"})

    with pytest.raises(NoFeasiblePlacement, match="bytes/s") as caught:
        policy("performance").place(view)

    assert (caught.value.job, caught.value.lacking, caught.value.proven) == ("clean", "bandwidth", False)


@pytest.mark.parametrize("name", POLICIES)
def test_policy_when_there_are_no_jobs_then_places_none(name: str) -> None:
    assert policy(name).place(replace(VIEW, jobs=())) == {}


def test_policy_when_its_name_is_misspelt_then_suggests_one() -> None:
    with pytest.raises(ValueError, match="did you mean 'performance'"):
        policy("perfomance")


def test_policy_when_a_parameter_is_not_its_own_then_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'performance'.*weight"):
        policy("performance", weight=1)
    with pytest.raises(ValueError, match=r"weight is 2; allowed: from 0 to 1"):
        policy("energy", weight=2)
    with pytest.raises(ValueError, match=r"beta is -1; allowed: 0 and more"):
        policy("quality", beta=-1)


def test_page_when_its_example_is_run_then_gives_what_it_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "placement.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}

    exec(code, names)

    said = re.findall(r"# (.+)$", code, re.MULTILINE)
    price = price_of(names["view"], names["moves"]).seconds
    latency_s = evaluate(names["view"], names["wanted"]).latency_s
    assert said == [str(names["wanted"]), f"{latency_s:g}", "clean: cloud → jfk", f"{price:g}"]
    assert names["moves"] == (Move("clean", "cloud", "jfk"),)
