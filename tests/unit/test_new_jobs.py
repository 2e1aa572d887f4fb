"""The picture of jobs that do not run yet, and places for those that belong together or apart."""

from __future__ import annotations

from typing import Any

import pytest
from test_mesh_view import NOW, SITES, job, measured

from towpath.composition.mesh_view import EVENT_BYTES, LEAST_RATE, picture
from towpath.composition.new_jobs import NEW_CORES, NewJobs, view_of_new
from towpath.contracts.commands import EXAMPLE_SPEC, JobView
from towpath.contracts.pipeline import PipelineJob
from towpath.placement.jobs.neighbours import placed_beside
from towpath.placement.jobs.policies.performance import Performance
from towpath.placement.jobs.policy import NoFeasiblePlacement
from towpath.placement.jobs.view import MeshView, Placement

VALUES = {
    "jfk, link:cloud, link.round_trip": 0.02,
    "jfk, link:cloud, link.bandwidth": 1e6,
    "jfk, process:engine, process.cpu.utilization": 1.0,
    "jfk, job:clean, job.event_rate": 100.0,
    "jfk, job:clean, job.result_rate": 50.0,
    "jfk, stream:IN, stream.event_rate": 400.0,
}


def new(name: str, reads: str = "site/y", **more: Any) -> PipelineJob:
    site, _, topic = reads.rpartition(":")
    return PipelineJob.model_validate(
        {
            **EXAMPLE_SPEC,
            "name": name,
            "site": "auto",
            "inputs": [{"site": site or "jfk", "topic": topic}],
            "output": {"topic": name},
            **more,
        }
    )


def running(name: str) -> JobView:
    """Return a job at `jfk` that reads devices, and whose description says what it writes."""
    view = job(name)
    spec = view.spec.model_copy(update={"output": new(name).output.model_copy(update={"site": "jfk"})})
    return view.model_copy(update={"spec": spec})


def found(asked: list[PipelineJob], *present: JobView, leaving: tuple[str, ...] = ()) -> NewJobs:
    seen = picture(SITES, present, {}, measured(**VALUES), NOW)
    return view_of_new(seen, present, asked, leaving)


def places(*asked: PipelineJob, present: tuple[JobView, ...] = ()) -> dict[str, str]:
    seen = found([*asked], *present)
    return {**placed_beside(Performance(), seen.view, seen.beside, seen.apart)}


def test_new_job_when_nothing_is_known_of_it_then_has_default_cores_and_the_rate_of_its_stream() -> None:
    view = found([new("mean")]).view

    mean = view.job["mean"]
    assert (view.cores_of(mean), mean.bytes_per_event) == (NEW_CORES, EVENT_BYTES)
    assert view.rates_out["mean"] == 400.0, "of all events of the site, as no job reads the topic"


def test_new_job_when_it_reads_a_running_job_then_that_is_a_source_and_its_cores_are_gone() -> None:
    view = found([new("mean", "clean", resources={"cores": 0.4})], running("clean")).view

    assert [(each.name, each.site, each.events_per_s) for each in view.sources] == [("clean", "jfk", 50.0)]
    assert (view.site["jfk"].cores, view.cores_of(view.job["mean"])) == (0.5, 0.4)


def test_new_job_when_another_one_leaves_then_has_its_room() -> None:
    assert found([new("mean")], running("clean"), leaving=("clean",)).view.site["jfk"].cores == 1.5


def test_new_job_when_it_reads_another_new_one_wherever_that_is_then_they_are_joined() -> None:
    view = found([new("mean", "auto:clean"), new("clean")]).view

    assert view.job["mean"].inputs == ("clean",)
    assert view.rates_out["mean"] == 400.0


def test_new_job_when_its_topic_has_no_events_yet_then_has_the_least_rate() -> None:
    view = found([new("mean", "cloud:site/y")]).view

    assert [each.events_per_s for each in view.sources] == [LEAST_RATE]


def test_place_when_there_is_room_then_is_where_the_data_is() -> None:
    assert places(new("clean"), new("mean", "auto:clean")) == {"clean": "jfk", "mean": "jfk"}


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        ({"forbidden": ["jfk"]}, "cloud"),
        ({"allowed": ["cloud"]}, "cloud"),
        ({"apart_from": ["old"]}, "cloud"),
        ({"beside": ["old"]}, "jfk"),
        ({"apart_from": ["clean"]}, "cloud"),
    ],
)
def test_place_when_the_job_says_where_it_may_be_then_is_there(
    placement: dict[str, Any], expected: str
) -> None:
    old, clean = new("old"), new("clean", placement={"allowed": ["jfk"]})
    asked = [old.model_copy(update={"site": "jfk"}), clean, new("mean", placement=placement)]

    assert places(*asked, present=(running("old"),))["mean"] == expected


def test_place_when_jobs_must_be_together_and_one_is_tied_then_both_are_there() -> None:
    tied = new("tied", placement={"forbidden": ["jfk"]})

    assert places(new("a", placement={"beside": ["tied"]}), tied) == {"a": "cloud", "tied": "cloud"}


def test_place_when_three_jobs_must_be_apart_at_two_sites_then_names_two_of_them() -> None:
    asked = [
        new("a"),
        new("b", placement={"apart_from": ["a"]}),
        new("c", placement={"apart_from": ["a", "b"]}),
    ]

    with pytest.raises(NoFeasiblePlacement, match="beside and apart as described") as refused:
        places(*asked)
    assert refused.value.job in "abc"
    assert refused.value.proven


def test_place_when_running_jobs_need_more_than_their_site_has_then_is_elsewhere() -> None:
    greedy = {**VALUES, "jfk, process:engine, process.cpu.utilization": 9.0}
    seen = picture(SITES, [running("clean")], {}, measured(**greedy), NOW)
    asked = view_of_new(seen, [running("clean")], [new("mean", "clean")])

    assert placed_beside(Performance(), asked.view, [], []) == {"mean": "cloud"}


def test_place_when_several_pairs_must_be_apart_then_all_are_put_right_at_once() -> None:
    asked = [new(name, placement={"apart_from": [f"{name}2"]}) for name in "abc"]
    seen = found([*asked, *(new(f"{name}2") for name in "abc")])
    policy = Counting()

    at = placed_beside(policy, seen.view, seen.beside, seen.apart)

    assert all(at[name] != at[f"{name}2"] for name in "abc")
    assert policy.calls == 2


class Counting(Performance):
    """The policy, and how often it was asked."""

    calls = 0

    def place(self, view: MeshView, seed: int = 0) -> Placement:
        Counting.calls += 1
        return super().place(view, seed)
