"""Proposals of places: the policy, the moves, and refusals that name what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from test_mesh_view import job
from test_new_jobs import new

from towpath.bus import Bus
from towpath.collector.federation import Federation
from towpath.collector.placements import Placements
from towpath.contracts.commands import JobList, ListJobs, ListSites, SiteList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import now
from towpath.contracts.metrics import QueryMetrics, Series, SeriesList
from towpath.contracts.metrics_table import AVAILABILITY
from towpath.contracts.pipeline import PolicyName
from towpath.contracts.pipeline_commands import ListPipelines, PipelineList
from towpath.contracts.placement import PlacementProposal, PlaceNewJobs, ProposePlacement
from towpath.contracts.site import Capacity, PowerSpec, SiteLink, SiteSpec, SiteState, SiteStatus

VALUES = {
    ("jfk", "process:engine", "process.cpu.utilization"): 0.5,
    ("jfk", "job:clean", "job.event_rate"): 100.0,
    ("jfk", "job:clean", "job.result_rate"): 50.0,
    ("jfk", "job:clean", "job.checkpoint.size"): 1e6,
    ("jfk", "link:cloud", "link.round_trip"): 0.02,
    ("jfk", "link:cloud", "link.bandwidth"): 1e6,
}


class Mesh:
    """The coordinator and the collector's measurements."""

    def __init__(self, cores: float = 4.0, down: Sequence[str] = (), unstable: Sequence[str] = ()) -> None:
        capacity = Capacity(cores=cores)
        self.specs = [SiteSpec(name="jfk", capacity=capacity), SiteSpec(name="cloud", capacity=capacity)]
        self.down = down
        self.values = VALUES | {("hub", f"site:{site}", AVAILABILITY): 0.9 for site in unstable}

    async def request(self, command: Any, *, deadline_s: float) -> Any:
        match command:
            case ListJobs():
                return JobList(jobs=[job("clean"), job("mean", "clean")])
            case ListPipelines():
                return PipelineList(pipelines=[])
            case ListSites():
                states = {spec.name: SiteState.UP for spec in self.specs}
                states |= dict.fromkeys(self.down, SiteState.DOWN)
                example = SiteStatus.example
                return SiteList(
                    sites=[
                        SiteStatus.model_validate({**example, "site": site, "state": state})
                        for site, state in states.items()
                    ]
                )
        raise AssertionError(command)

    async def query(self, command: QueryMetrics) -> SeriesList:
        at = now().timestamp()
        return SeriesList(
            series=[
                Series(site=site, entity=entity, metric=metric, unit="1", points=[(at, value)])
                for (site, entity, metric), value in self.values.items()
            ]
        )


def placements(mesh: Mesh) -> Placements:
    return Placements(cast("Bus", mesh), cast("Federation", mesh), lambda: mesh.specs)


async def refused(mesh: Mesh, **asked: Any) -> tuple[ErrorCode, str | None, Any]:
    with pytest.raises(TowpathError) as error:
        await placements(mesh).propose(ProposePlacement(**asked))
    detail = error.value.detail
    return detail.code, detail.field, detail.value


async def test_proposal_when_jobs_are_where_their_data_is_then_has_no_move() -> None:
    found = await placements(Mesh()).propose(ProposePlacement())

    assert [(each.job, each.current, each.proposed) for each in found.jobs] == [
        ("clean", "jfk", "jfk"),
        ("mean", "jfk", "jfk"),
    ]
    assert (found.moves, found.current) == ([], found.proposed)


async def test_proposal_when_a_site_is_to_be_empty_then_its_jobs_move_and_the_price_is_told() -> None:
    found = await placements(Mesh()).propose(ProposePlacement(avoid=["jfk"]))

    assert {(move.job, move.origin, move.target) for move in found.moves} == {
        ("clean", "jfk", "cloud"),
        ("mean", "jfk", "cloud"),
    }
    assert found.proposed.latency_s > found.current.latency_s == 0
    [clean] = [move for move in found.moves if move.job == "clean"]
    assert (clean.state_bytes, clean.transfer_s) == (1e6, pytest.approx(1.01))


async def test_proposal_when_links_have_a_price_then_tells_that_of_an_hour() -> None:
    mesh = Mesh()
    mesh.specs[0] = mesh.specs[0].model_copy(update={"link": SiteLink(price_per_gb=10.0)})

    found = await placements(mesh).propose(ProposePlacement(avoid=["jfk"]))

    assert found.current.link_price_per_h == 0, "all jobs are where their data is"
    moved = found.proposed
    assert moved.link_price_per_h == pytest.approx(moved.bytes_per_s * 3600 * 10 / 1e9)
    assert moved.link_price_per_h > 0


async def test_proposal_when_only_some_jobs_may_move_then_the_others_stay_and_say_why() -> None:
    found = await placements(Mesh()).propose(ProposePlacement(avoid=["jfk"], jobs=["mean"]))

    assert [(each.job, each.proposed, each.stays) for each in found.jobs] == [
        ("clean", "jfk", "not asked to move"),
        ("mean", "cloud", None),
    ]


async def test_proposal_when_a_site_is_down_then_no_job_goes_there() -> None:
    mesh = Mesh(down=["cloud"])

    assert await refused(mesh, avoid=["jfk"]) == (ErrorCode.NOT_ALLOWED, "jobs", "clean")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"policy": "fastest"}, (ErrorCode.INVALID, "policy", "fastest")),
        ({"avoid": ["mars"]}, (ErrorCode.UNKNOWN_SITE, "avoid", "mars")),
        ({"jobs": ["none"]}, (ErrorCode.UNKNOWN_JOB, "jobs", "none")),
        ({"weight": 0.5}, (ErrorCode.INVALID, "weight", 0.5)),
    ],
)
async def test_proposal_when_a_name_or_parameter_is_wrong_then_is_refused(
    asked: dict[str, Any], expected: tuple[ErrorCode, str, Any]
) -> None:
    assert await refused(Mesh(), **asked) == expected


async def test_proposal_when_no_site_has_room_then_names_the_job_that_lacks_it() -> None:
    code, field, value = await refused(Mesh(cores=0.1))

    assert (code, field) == (ErrorCode.NOT_ALLOWED, "jobs")
    assert value in ("clean", "mean")


@pytest.mark.parametrize(
    ("mesh", "expected"),
    [
        (Mesh(), "jfk"),
        (Mesh(down=["jfk"]), "cloud"),
        (Mesh(unstable=["jfk"]), "cloud"),
        (Mesh(unstable=["jfk", "cloud"]), "jfk"),
    ],
    ids=["up", "down", "unstable", "all unstable"],
)
async def test_new_job_when_the_site_of_its_data_is_sound_then_is_there_else_elsewhere(
    mesh: Mesh, expected: str
) -> None:
    found = await placements(mesh).place_new(PlaceNewJobs(jobs=[new("fresh"), new("fixed", site="cloud")]))

    [place] = found.places
    assert (place.job, place.site, place.cores, found.policy) == ("fresh", expected, 0.25, "performance")
    assert "cores are left there" in place.reason


@pytest.mark.parametrize(("policy", "expected"), [("performance", "jfk"), ("energy", "cloud")])
async def test_new_job_when_a_policy_is_named_then_that_one_finds_its_site(
    policy: str, expected: str
) -> None:
    mesh = Mesh()
    mesh.specs[0] = mesh.specs[0].model_copy(update={"power": PowerSpec(idle_w=10.0, active_w=90.0)})
    asked = PlaceNewJobs(jobs=[new("fresh")], policy=PolicyName(policy))

    found = await placements(mesh).place_new(asked)

    assert (found.policy, found.places[0].site) == (policy, expected)


async def test_new_job_when_the_policy_looks_at_no_cores_then_a_place_without_room_is_refused() -> None:
    asked = PlaceNewJobs(jobs=[new("greedy", resources={"cores": 9.0})], policy=PolicyName.BASELINE)

    with pytest.raises(TowpathError, match="there is no place for job 'greedy': jfk has"):
        await placements(Mesh()).place_new(asked)


async def test_new_job_when_no_site_has_room_then_the_refusal_says_what_is_short() -> None:
    greedy = new("greedy", resources={"cores": 9.0})

    with pytest.raises(TowpathError, match="it needs 9 cores, and no site") as refused:
        await placements(Mesh()).place_new(PlaceNewJobs(jobs=[greedy]))
    detail = refused.value.detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.NOT_ALLOWED, "jobs", "greedy")


async def test_new_jobs_when_they_read_each_other_in_a_circle_then_are_refused() -> None:
    with pytest.raises(TowpathError, match="wait for each other") as refused:
        await placements(Mesh()).place_new(PlaceNewJobs(jobs=[new("a", "auto:b"), new("b", "auto:a")]))
    assert refused.value.detail.code is ErrorCode.INVALID


async def test_proposal_when_no_link_was_measured_yet_then_it_can_be_read_and_says_what_is_missing() -> None:
    class Unlinked(Mesh):
        """A job that reads another's results where no link is known."""

        async def request(self, command: Any, *, deadline_s: float) -> Any:
            if isinstance(command, ListJobs):
                return JobList(jobs=[job("clean"), job("mean", "clean", site="cloud")])
            return await super().request(command, deadline_s=deadline_s)

    mesh = Unlinked()
    mesh.values = {key: value for key, value in VALUES.items() if not key[1].startswith("link:")}

    found = await placements(mesh).propose(ProposePlacement())

    read = PlacementProposal.model_validate_json(found.model_dump_json())
    assert read.current.latency_s is None
    assert any("no link" in each for each in read.current.shortages)
