"""A site's engine: answers the agent, publishes results to the site that keeps them."""

from __future__ import annotations

from towpath.contracts.message import ROOT
from towpath.contracts.traces import EventSpan
from towpath.mesh.permissions import Rights, own_jetstream, results, results_aside
from towpath.mesh.service_table import Service, register

ENGINE = register(
    Service(
        name="engine",
        summary="runs the jobs of the site as queries of one Spark session",
        module="towpath.engine",
        one_per_site=True,
        started_by_agent=True,
        rights=lambda site: Rights(
            publish=[
                *results(by=site),
                *results_aside(by=site),
                *own_jetstream(site),
                EventSpan.wildcard(),
            ],
            subscribe=[f"{ROOT}.engine.{site}.>"],
            answers=True,
        ),
    )
)
