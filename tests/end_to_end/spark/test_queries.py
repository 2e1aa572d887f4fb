"""Queries in an engine's Spark session: panes, answers, timeouts, and state over a restart."""

from __future__ import annotations

from typing import Any

import pytest

from running.engine import Site, assignment
from towpath.queries.compilation import Asked, job_of

pytestmark = pytest.mark.timeout(240)

TEXT = """
s = STREAM FROM topic(topic="site/a", time="at", delay="1 SECONDS", value="v");
by_key = COMPUTE AVG(s, 10 SECONDS) EVERY 5 SECONDS BY k;
all = COMPUTE SUM(s, 10 SECONDS) + COUNT(s, 5 SECONDS) EVERY 5 SECONDS;
middle = COMPUTE MEDIAN(v WHEN > 1, 10 SECONDS) EVERY 10 SECONDS;
each = COMPUTE s - RUNNING_MEAN(s) WHEN > 0;
above = COMPUTE MAX(by_key, 10 SECONDS) EVERY 10 SECONDS;
"""


def event(second: float, k: str, v: float) -> dict[str, Any]:
    return {"at": f"2026-01-01T00:{int(second) // 60:02}:{second % 60:06.3f}Z", "k": k, "v": v}


async def test_query(site: Site) -> None:
    spec = job_of(Asked("q", "jfk", TEXT, {}))
    print(spec.operator.model_dump_json(indent=1, exclude_defaults=True))
    job = assignment(spec.operator.model_dump(mode="json"))
    events = [event(n * 1.5, "ab"[n % 2], float(n)) for n in range(20)]
    await site.put("site.a", *events[:10])
    async with site.running(job):
        await site.until(lambda results: len(results) >= 5)
    await site.put("site.a", *events[10:], event(100, "c", 0))
    async with site.running(job):
        results = await site.until(lambda results: len(results) >= 20)
        import asyncio

        await asyncio.sleep(5)
        await site.put("site.a", event(101, "c", 0))
        await asyncio.sleep(5)
        results = await site.until(lambda results: len(results) >= 20)
    for r in results:
        print(r.serial, r.window, r.key, r.values)
    assert 0
