"""The job that the explorer and the scenarios move between sites, and the coordinator's reconciliation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulation.trial import Trial
from simulation.weakness import Weakness
from towpath.contracts.commands import StrategyName
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec, ResolvedInput, ResolvedOutput
from towpath.contracts.migration import SiteCommand
from towpath.contracts.site import SiteStatus
from towpath.coordinator.overtaken import overtaken
from towpath.coordinator.reconciliation import corrections, differences
from towpath.protocols.record import JobEntry

SITES = ("jfk", "cloud", "out")
WINDOWS = {"kind": "processing_window", "size_s": 1.0, "aggregates": {"departures": {"function": "count"}}}


def entry(strategy: StrategyName) -> JobEntry:
    """Return a job that this strategy can move: windows by processing time for `parallel`."""
    operator = WINDOWS if strategy is StrategyName.PARALLEL else EXAMPLE_SPEC["operator"]
    return JobEntry(
        spec=JobSpec.model_validate({**EXAMPLE_SPEC, "operator": operator}),
        site="jfk",
        epoch=1,
        inputs=[
            ResolvedInput(name="jfk/clean", site="jfk", stream="OUT_clean", subject=None, from_device=False)
        ],
        output=ResolvedOutput(site="out", stream="OUT_hourly", topic="hourly", rejected_topic="rejected"),
    )


def trial(strategy: StrategyName, *weak: Weakness) -> Trial:
    """Return a mesh on which nothing has happened yet."""
    return Trial.of(entry(strategy), *SITES, weak=frozenset(weak))


def reconcile(jobs: Mapping[str, JobEntry], statuses: list[SiteStatus]) -> list[SiteCommand[Any]]:
    """Return the commands that correct sites whose heartbeats differ from the registry.

    No operation leaves a site with an epoch that the registry does not know.
    """
    found = sorted(differences(jobs, statuses), key=lambda d: (d.site, d.what))
    assert not any(overtaken(d.job, jobs.get(d.job), None, statuses) for d in found)
    return [command for d in found for command in corrections(d, jobs.get(d.job), None)]
