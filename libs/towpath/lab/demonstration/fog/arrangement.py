"""The two scenarios as pipelines: SpecK's road-traffic deployment (DAIS 2021, its Fig. 7), on departures.

For each of three edge sites, a chain of four jobs; and one job that merges what the chains bring:

    devices ─▶ 1 clean-<edge> ──┬── 3 hourly-<edge>
                                └── 2 late-<edge> ──▶ 4 delays-<edge>
                                         └──▶ delays-all, over all edges

Job 1 cleans, job 2 forwards those that left late, job 3 keeps the edge's own hourly statistics of all
departures, job 4 those of the late ones at the cloud. In *Fog* jobs 1 to 3 run at the edge, where the data
is, and what job 2 forwards crosses the links. In *Cloud* all jobs run at the cloud, and everything that
devices send crosses the links.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from towpath.contracts.job import Input, Output
from towpath.contracts.operators import FieldType, Filter, Operator
from towpath.contracts.pipeline import PipelineJob, PipelineSpec
from towpath.lab.demonstration.pipeline import CLEAN, CLOUD, DEVICE_TOPIC, hourly

LATE_MINUTES = 15.0
"""A departure counts as late beyond it, as the United States' statistics have it."""

LATE = Filter(
    fields={
        "carrier": FieldType.STRING,
        "delay": FieldType.DOUBLE,
        "departed_at": FieldType.TIMESTAMP,
    },
    where=f"delay > {LATE_MINUTES:g}",
)
"""About a fifth of all departures, and of each only what the cloud computes with."""


class Arrangement(StrEnum):
    """Where the jobs run."""

    FOG = "fog"
    """Where the data is."""
    CLOUD = "cloud"
    """All at the cloud."""


def arranged_pipeline(
    scenario: Arrangement, edges: Sequence[str], watermark_s: float, trigger_s: float
) -> PipelineSpec:
    """The jobs of a scenario, upstream first: four for each edge, and one over all of them."""
    sites = {edge: edge if scenario is Arrangement.FOG else CLOUD for edge in edges}
    jobs = [job for edge, site in sites.items() for job in _chain(edge, site, watermark_s, trigger_s)]
    late = [Input(site=CLOUD, topic=_late_topic(edge)) for edge in edges]
    merged = _job("delays-all", CLOUD, late, "all/delays", hourly(watermark_s), trigger_s)
    return PipelineSpec(name=f"traffic-{scenario}", jobs=[*jobs, merged])


def _chain(edge: str, site: str, watermark_s: float, trigger_s: float) -> list[PipelineJob]:
    # What devices sent before the scenario is not part of it.
    devices = Input(site=edge, topic=DEVICE_TOPIC, start="latest")
    clean = Input(site=site, topic=f"{edge}/clean")
    late = Input(site=CLOUD, topic=_late_topic(edge))
    return [
        _job(f"clean-{edge}", site, [devices], clean.topic, CLEAN, trigger_s),
        _job(f"late-{edge}", site, [clean], late.topic, LATE, trigger_s, output_site=CLOUD),
        _job(f"hourly-{edge}", site, [clean], f"{edge}/hourly", hourly(watermark_s), trigger_s),
        _job(f"delays-{edge}", CLOUD, [late], f"{edge}/delays", hourly(watermark_s), trigger_s),
    ]


def _job(
    name: str,
    site: str,
    inputs: list[Input],
    topic: str,
    operator: Operator,
    trigger_s: float,
    output_site: str | None = None,
) -> PipelineJob:
    output = Output(site=output_site or site, topic=topic)
    return PipelineJob(
        name=name, site=site, inputs=inputs, output=output, operator=operator, trigger_s=trigger_s
    )


def _late_topic(edge: str) -> str:
    return f"{edge}/late"
