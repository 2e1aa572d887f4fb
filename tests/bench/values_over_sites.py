"""Stored values of three sites as one store: how soon an answer comes that needs all of them."""

from __future__ import annotations

import statistics
import time
from datetime import timedelta
from typing import Any

from benchmark import Say
from figures import Case, Target, rounded
from measured_mesh import COMMAND_S, MeasuredMesh, mesh_of, temporary_home, until

from towpath.contracts.links import LinkConditions, ShapeLink
from towpath.contracts.message import now
from towpath.contracts.site import SiteSpec
from towpath.contracts.storage import QueryValues, StorageSpec, Wanted

SITES = ("jfk", "lga", "ewr")
METRIC = "cpu_ptc"
DELAY_S = 0.02
READY_S = 60.0
MEDIAN, BEYOND = "ms, median", "ms beyond the link"
TARGET = Target(at_most=20.0)


async def cases_over_sites(say: Say, questions: int) -> list[Case]:
    """Ask a mesh of three sites, over links without delay and with 20 ms each way."""
    with temporary_home() as home:
        async with mesh_of(
            home,
            [SiteSpec(name=site) for site in SITES],
            say,
            emulate_links=True,
            storage=StorageSpec(enabled=True),
        ) as mesh:
            await until(lambda: _is_complete(mesh), READY_S, "values of all sites")
            found: list[Case] = []
            for delay_s in (0.0, DELAY_S):
                for site in SITES:
                    conditions = LinkConditions(delay_ms=1000 * delay_s) if delay_s else LinkConditions()
                    await mesh.bus.request(ShapeLink(site=site, conditions=conditions), deadline_s=COMMAND_S)
                found += [
                    await _case(mesh, each, delay_s, questions) for each in (Wanted.LATEST, Wanted.RANGE)
                ]
            return found


def _question(wanted: Wanted) -> QueryValues:
    times: dict[str, Any] = {} if wanted is Wanted.LATEST else {"since": now() - timedelta(minutes=10)}
    return QueryValues(wanted=wanted, metrics=[METRIC], entities=["node:*"], **times)


async def _is_complete(mesh: MeasuredMesh) -> bool:
    answer = await mesh.bus.request(_question(Wanted.LATEST), deadline_s=COMMAND_S)
    return {series.site for series in answer.series} == {*SITES}


async def _case(mesh: MeasuredMesh, wanted: Wanted, delay_s: float, questions: int) -> Case:
    took: list[float] = []
    for _ in range(questions):
        begun = time.perf_counter()
        answer = await mesh.bus.request(_question(wanted), deadline_s=COMMAND_S)
        took.append(1000 * (time.perf_counter() - begun))
        assert len(answer.series) == len(SITES)
    median = statistics.median(took)
    way = f"{wanted} of three sites, links of {1000 * delay_s:g} ms"
    beyond = median - 2000 * delay_s
    return Case(way, {MEDIAN: rounded(median), BEYOND: rounded(beyond)}, {BEYOND: TARGET})
