"""An adjusted job keeps its query and takes the new settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from running.engine import Site, assignment
from running.promises import promise
from running.waiting import WITHIN_S
from towpath.contracts.job import Assignment, JobState
from towpath.engine.queries import Queries
from towpath.engines.spark.layout import newest_commit

pytestmark = pytest.mark.timeout(900)

FORWARD = {"kind": "forward"}


@pytest.fixture
async def queries(site: Site) -> AsyncIterator[Queries]:
    queries = Queries(site.session, site.settings, site.sink)
    yield queries
    await queries.close()


async def put(site: Site, count: int) -> None:
    await site.put("site.a", *({"n": n} for n in range(count)))


async def running(queries: Queries) -> str:
    """Return the id of the run of the job's query, once it runs."""
    async with asyncio.timeout(WITHIN_S):
        while [status.state for status in queries.statuses()] != [JobState.RUNNING]:
            await asyncio.sleep(0.05)
    query = queries._kept["job"].query.running
    assert query is not None
    return str(query.runId)


def with_bound(job: Assignment, bound: int) -> Assignment:
    spec = job.spec.model_copy(update={"max_events_per_batch": bound})
    return job.model_copy(update={"spec": spec, "revision": job.revision + 1})


@promise("pipelines")
async def test_job_when_the_bound_of_its_micro_batches_changes_then_the_same_query_goes_on_with_it(
    site: Site, queries: Queries
) -> None:
    job = assignment(FORWARD, max_events_per_batch=5)
    await put(site, 20)
    await queries.run(job, site.checkpoint)
    await site.until(lambda results: len(results) == 20)
    first, before = await running(queries), newest_commit(site.checkpoint)
    assert before is not None
    assert before >= 2
    await queries.run(with_bound(job, 1_000), site.checkpoint)
    await asyncio.gather(*(put(site, 1) for _ in range(400)))
    results = await site.until(lambda results: len(results) == 420)
    assert [result.serial for result in results] == list(range(1, 421))
    assert await running(queries) == first
    after = newest_commit(site.checkpoint)
    assert after is not None
    assert after - before < 400 / 5


async def test_job_when_something_else_changes_too_then_another_query_goes_on(
    site: Site, queries: Queries
) -> None:
    job = assignment(FORWARD, max_events_per_batch=5)
    await put(site, 5)
    await queries.run(job, site.checkpoint)
    await site.until(lambda results: len(results) == 5)
    first = await running(queries)
    changed = job.model_copy(update={"spec": job.spec.model_copy(update={"trigger_s": 0.5})})
    await queries.run(changed, site.checkpoint)
    await put(site, 5)
    await site.until(lambda results: len(results) == 10)
    assert await running(queries) != first
