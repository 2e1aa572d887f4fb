"""Jobs that start again on a real Spark session: windows over several inputs, a stream that began again."""

from __future__ import annotations

from typing import Any

import pytest

from running.engine import DEVICE, Site, assignment
from running.waiting import eventually
from towpath.contracts.data_plane import IN_STREAM
from towpath.contracts.site import Retention
from towpath.streams.failures import EventsRenumbered, failure_in
from towpath.streams.streams import SiteStreams

pytestmark = pytest.mark.timeout(900)

OTHER = {**DEVICE, "name": "jfk/site/b", "subject": "site.b"}
WINDOWS = {
    "kind": "window",
    "fields": {"at": "timestamp", "v": "double"},
    "event_time": "at",
    "watermark_s": 1.0,
    "size_s": 10.0,
    "aggregates": {"events": {"function": "count"}},
}


def event(second: int) -> dict[str, Any]:
    return {"at": f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z", "v": 1.0}


async def test_windows_when_an_input_is_silent_after_a_restart_then_its_time_still_counts(site: Site) -> None:
    job = assignment(WINDOWS, DEVICE, OTHER)
    await site.put("site.a", event(1), "rubbish", event(2), event(100))
    await site.put("site.b", event(3), event(25))
    async with site.running(job):
        [closed] = await site.until(lambda results: len(results) == 1)
    assert closed.values == {"events": 3}
    await site.put("site.b", event(100))
    async with site.running(job):
        results = await site.until(lambda results: len(results) == 2)
    assert [result.values for result in results] == [{"events": 3}, {"events": 1}]
    assert len(await site.rejected()) == 1, "what is recalled is not rejected once more"


async def test_job_when_its_stream_began_again_and_is_longer_then_stops_and_passes_over_nothing(
    site: Site,
) -> None:
    job = assignment({"kind": "forward"}, DEVICE)
    await site.put("site.a", *(event(second) for second in range(10)))
    async with site.running(job):
        await site.until(lambda results: len(results) == 10)
    await site.connection.jetstream().delete_stream(IN_STREAM)
    await SiteStreams(site.connection, "jfk", Retention()).ensure_in()
    await site.put("site.a", *(event(second) for second in range(14)))
    async with site.running(job) as query:
        await eventually(lambda: not query.is_active())
        failure = failure_in(query.failure())
    assert failure is not None
    assert failure.kind is EventsRenumbered
    assert len(await site.results()) == 10
