"""Events that a device sends twice count once, on a real Spark session and over restarts of the query."""

from __future__ import annotations

from typing import Any

import pytest

from running.engine import DEVICE, Site, assignment
from running.promises import promise
from running.waiting import eventually
from towpath.engine.recomputation import recompute_window
from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS

pytestmark = [promise("sent twice"), pytest.mark.timeout(900)]

KNOWN = {**DEVICE, "identity": ["id"], "repeats_within": 100}
WINDOWS = {
    "kind": "window",
    "fields": {"at": "timestamp", "id": "long"},
    "event_time": "at",
    "watermark_s": 0.0,
    "size_s": 10.0,
    "aggregates": {"events": {"function": "count"}, "total": {"function": "sum", "field": "id"}},
}


def event(identity: int, **more: Any) -> dict[str, Any]:
    return {"at": f"2026-01-01T00:00:0{identity}Z", "id": identity, **more}


async def test_window_when_events_come_twice_and_again_after_a_restart_then_counts_each_once(
    site: Site,
) -> None:
    job = assignment(WINDOWS, KNOWN)
    await site.put("site.a", event(1), event(2), event(1, sent_again=True))
    async with site.running(job):
        await eventually(lambda: SPARK_CHECKPOINTS.position(site.checkpoint, job) == {"jfk/site/a": 3})
    await site.put("site.b", event(3))
    await site.put("site.a", event(2, sent_again=True), event(3), event(3, sent_again=True))
    async with site.running(job):
        await site.put("site.a", {"at": "2026-01-01T00:01:00Z", "id": 60})
        results = await site.until(lambda results: len(results) == 1)

    assert [(r.count, r.values) for r in results] == [(3, {"events": 3, "total": 6.0})]


async def test_forwarded_events_when_they_come_twice_and_the_query_restarts_then_are_the_first_ones(
    site: Site,
) -> None:
    job = assignment({"kind": "forward"}, KNOWN, max_events_per_batch=4)
    identities = [1, 2, 1, 3, 2, 4, 4, 5, 1, 6]
    await site.put("site.a", *(event(identity) for identity in identities), "rubbish", "rubbish")
    async with site.running(job):
        await site.until(lambda results: len(results) == 6)
    await site.put("site.a", event(6), event(1), event(7))
    async with site.running(job):
        results = await site.until(lambda results: len(results) >= 7)

    assert [result.values["id"] for result in results] == [1, 2, 3, 4, 5, 6, 7]
    assert [result.serial for result in results] == [1, 2, 4, 6, 8, 10, 15]
    assert [each.serial for each in await site.rejected()] == [11, 12]


async def test_range_when_a_window_is_computed_again_then_the_same_repeats_are_passed_over(
    site: Site,
) -> None:
    count = {"kind": "processing_window", "size_s": 1, "aggregates": {"n": {"function": "count"}}}
    await site.put("site.a", *(event(identity) for identity in [1, 2, 1, 3, 2, 4]))
    job = assignment(count, KNOWN)

    [(_, body)] = recompute_window(site.session, site.settings, job, 2, 6)

    assert '"n":2' in body.replace(" ", "")
