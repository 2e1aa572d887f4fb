"""Probes for experiments of Chaos Toolkit: each measures once, on the mesh under `TOWPATH_HOME`.

They ask the mesh alone and hear no load, so throughput is measured against what the input stores. Raises
`TowpathError` where nothing can be measured.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from datetime import datetime
from typing import Any

from towpath.checker.identity import utc
from towpath.contracts.commands import JobView, ListJobs, ListSites
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.metrics import Metric
from towpath.contracts.site import SiteState
from towpath.lab.scenarios.chaostoolkit.connection import Connected, connected
from towpath.mesh.names import api_prefix
from towpath.streams.pages import last_serial, page

__all__ = ["lag", "latency", "metric", "output_gap", "site_up", "throughput"]

ANSWER_S = 5.0
METRIC_S = 6.0
LATEST_RESULTS = 500


def throughput(job: str, over_s: float = 3.0) -> float:
    """Events that a job processed in the next `over_s` seconds, in percent of those stored meanwhile."""
    return asyncio.run(_throughput(job, over_s))


def output_gap(job: str) -> float:
    """Seconds since the newest result of a job was stored."""
    return asyncio.run(_output_gap(job))


def latency(job: str, over_s: float = 3.0) -> float:
    """Median seconds from storing the newest event in a result to storing the result, over the last ones."""
    return asyncio.run(_latency(job, over_s))


def lag(job: str) -> int:
    """Events stored that a job has not processed."""
    return asyncio.run(_lag(job))


def site_up(site: str) -> bool:
    """Whether a site is up."""
    return asyncio.run(_site_up(site))


def metric(name: str, entity: str | None = None, max_age_s: float = METRIC_S) -> float:
    """The next value of a metric, within `max_age_s` seconds."""
    return asyncio.run(_metric(name, entity, max_age_s))


async def _throughput(job: str, over_s: float) -> float:
    async with connected() as mesh:
        view = await _view(mesh, job)
        processed, stored = _processed(view), await _stored(mesh, view)
        await asyncio.sleep(over_s)
        done = _processed(await _view(mesh, job)) - processed
        came = await _stored(mesh, view) - stored
    if not came:
        raise TowpathError(ErrorCode.FAILED, "nothing was stored", field="job", value=job)
    return 100.0 * done / came


async def _lag(job: str) -> int:
    async with connected() as mesh:
        view = await _view(mesh, job)
        return max(0, await _stored(mesh, view) - _processed(view))


async def _output_gap(job: str) -> float:
    async with connected() as mesh:
        state = await _stream(mesh, (await _view(mesh, job)).output)
    if not state.get("last_seq"):
        raise TowpathError(ErrorCode.FAILED, "no result yet", field="job", value=job)
    return max(0.0, time.time() - datetime.fromisoformat(state["last_ts"]).timestamp())


async def _latency(job: str, over_s: float) -> float:
    async with connected() as mesh:
        output = (await _view(mesh, job)).output
        last = (await _stream(mesh, output)).get("last_seq", 0)
        first = max(1, last - LATEST_RESULTS + 1)
        results = await page(mesh.bus.connection, output.site, output.stream, first, LATEST_RESULTS)
    latencies: list[float] = []
    for result in results:
        at = datetime.fromisoformat(result.headers["Nats-Time-Stamp"]).timestamp()
        if at > time.time() - over_s:
            latencies.append(at - utc(json.loads(result.body)["stored_at"]).timestamp())
    if not latencies:
        raise TowpathError(ErrorCode.FAILED, "no result in that time", field="over_s", value=over_s)
    return statistics.median(latencies)


async def _site_up(site: str) -> bool:
    async with connected() as mesh:
        sites = (await mesh.bus.request(ListSites(), deadline_s=ANSWER_S)).sites
    return any(status.site == site and status.state is SiteState.UP for status in sites)


async def _metric(name: str, entity: str | None, within_s: float) -> float:
    heard: asyncio.Queue[Metric] = asyncio.Queue()
    async with connected() as mesh:
        await mesh.bus.subscribe(Metric, heard.put, name=name)
        try:
            async with asyncio.timeout(within_s):
                while True:
                    found = await heard.get()
                    if entity in (None, found.entity):
                        return found.value
        except TimeoutError as error:
            raise TowpathError(ErrorCode.DEADLINE, "nobody sent it", field="name", value=name) from error


async def _view(mesh: Connected, job: str) -> JobView:
    jobs = (await mesh.bus.request(ListJobs(), deadline_s=ANSWER_S)).jobs
    view = next((view for view in jobs if view.spec.name == job), None)
    if view is None:
        known = [view.spec.name for view in jobs]
        raise TowpathError(ErrorCode.UNKNOWN_JOB, "no such job", field="job", value=job, allowed=known)
    return view


def _processed(view: JobView) -> int:
    return sum(view.status.serials.values()) if view.status else 0


async def _stored(mesh: Connected, view: JobView) -> int:
    found = [await last_serial(mesh.bus.connection, entry.site, entry.stream) for entry in view.inputs]
    return sum(found)


async def _stream(mesh: Connected, output: ResolvedOutput) -> dict[str, Any]:
    subject = f"{api_prefix(output.site)}.STREAM.INFO.{output.stream}"
    answer = await mesh.bus.connection.request(subject, b"", timeout=ANSWER_S)
    return json.loads(answer.data).get("state", {})
