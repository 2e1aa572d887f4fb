"""Proposals of places: which site each job should run at, what that gains, and what the moves cost."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from towpath.contracts.job import EXAMPLE_SPEC
from towpath.contracts.message import AUTO_SITE, ROOT, Command, JobName, Model, SiteName
from towpath.contracts.pipeline import PipelineJob, PolicyName


class PlacementFigures(Model):
    """Figures of all jobs at their places, as predicted."""

    latency_s: float | None
    """Of the slowest way from a source to a job that no other reads: its transfers, without computing. Null:
    there is no link on a way, or none was measured yet."""
    power_w: float
    """Of all sites."""
    checked_share: float
    """Share of the sources' data that can be checked with what jobs leave."""
    bytes_per_s: float
    """Over all links."""
    link_price_per_h: float = 0.0
    """Of what crosses links in an hour, by `sites.link.price_per_gb`."""
    shortages: list[str] = []
    """Lack of sites or links. Without any, all jobs have room."""


class JobPlace(Model):
    """A job, where it is, and where it should be."""

    job: JobName
    current: SiteName
    proposed: SiteName
    cores: float
    """Needed: as its pipeline says, else as measured."""
    stays: str | None = None
    """Reason why it is not moved, whatever the policy."""


class ProposedMove(Model):
    """One move on the way."""

    job: JobName
    origin: SiteName
    target: SiteName
    temporary: bool = False
    """It makes room, and moves on later."""
    state_bytes: float
    transfer_s: float | None
    """Seconds until its state has arrived. Null: there is no link, or none was measured yet."""


class PlacementProposal(Model):
    """Places for all jobs, and the moves that lead there."""

    policy: str
    age_s: float
    """Age of the oldest measurement behind it."""
    jobs: list[JobPlace]
    current: PlacementFigures
    proposed: PlacementFigures
    moves: list[ProposedMove]
    """In an order that overloads no site on the way."""


class ProposePlacement(Command[PlacementProposal]):
    """Where should jobs be? Nothing moves."""

    subject = f"{ROOT}.command.collector.propose-placement"
    answer = PlacementProposal
    example = {"id": "t1", "policy": "energy", "weight": 0.5, "avoid": ["jfk"]}

    policy: str = Field(default="performance", max_length=50)
    weight: float | None = Field(default=None, ge=0, le=1)
    """Of `energy`: 0 is latency alone, 1 is power alone; null: 1."""
    beta: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Of `quality`: weight of checked data; null: 1."""
    jobs: list[JobName] | None = Field(default=None, max_length=1000)
    """Jobs that may move; null: all."""
    avoid: list[SiteName] = Field(default=[], max_length=1000)
    """Sites at which no job should be."""


class NewPlace(Model):
    """The place found for a new job."""

    job: JobName
    site: SiteName
    cores: float
    """Needed: as its pipeline says, else a default."""
    reason: str
    """For people: how far its inputs are, and what the site has left."""


class NewPlaces(Model):
    """Places for new jobs, found together."""

    policy: str
    age_s: float
    """Age of the oldest measurement behind them."""
    places: list[NewPlace]
    """Of the jobs whose site is `auto`."""
    figures: PlacementFigures
    """Of the new jobs alone, those with a named site too."""


class PlaceNewJobs(Command[NewPlaces]):
    """Where should jobs be that do not run yet? The coordinator asks before it accepts `site: auto`."""

    subject = f"{ROOT}.command.collector.place-new-jobs"
    answer = NewPlaces
    example = {"id": "t2", "jobs": [{**EXAMPLE_SPEC, "site": AUTO_SITE}]}

    jobs: list[PipelineJob]
    """The job, or all jobs of its pipeline. Those that run already are at the site that is named."""
    policy: PolicyName = PolicyName.PERFORMANCE
    leaving: list[JobName] = []
    """Jobs that are about to be removed, and need no more room."""


PLACEMENT_COMMANDS: tuple[type[Command[Any]], ...] = (ProposePlacement, PlaceNewJobs)
"""Served by the collector."""
