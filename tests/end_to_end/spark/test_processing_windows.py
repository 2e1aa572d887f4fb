"""Processing-time windows on a real Spark session, from and into streams of a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from running.engine import (
    DEVICE,
    SETTINGS,
    SUMS,
    UPSTREAM,
    Site,
    assignment,
    by_count,
    processing_window,
)
from running.operators import computed, messages
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.result import Result
from towpath.engine.query import compile_for
from towpath.engine.recomputation import recompute_window

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
async def site(site: Site) -> Site:
    """Return the site with the output of an upstream job."""
    await site.jetstream.add_stream(name="OUT_clean", subjects=["sink.jfk.jfk.clean.1"], allow_direct=True)
    return site


def ranges(results: list[Result]) -> list[tuple[int, int]]:
    """Return the serial ranges in order, each once."""
    return sorted({(r.after or 0, r.through or 0) for r in results})


def covers(through: int) -> Callable[[list[Result]], bool]:
    return lambda results: any(r.through == through for r in results)


async def are_rejected(site: Site, count: int) -> bool:
    return len(await site.rejected()) == count


def total(results: list[Result], key: str) -> float:
    return sum(r.values["total"] for r in results if r.key == {"k": key})


@promise("operators")
async def test_window_by_time_when_events_keep_coming_then_ranges_cover_all_serials_and_sums_are_right(
    site: Site,
) -> None:
    async with site.running(assignment(processing_window())):
        for wave in range(3):
            await site.put("site.other", {"v": 1000})
            await site.put("site.a", {"k": "x", "v": wave}, "rubbish", {"k": "y", "v": 1}, {"v": 5})
            await site.put("site.other", {"v": 1000})
            # The wave's events are in windows before the next wave comes.
            results = await site.until(lambda r, last=6 * wave + 4: any(i.serial == last for i in r))
        await eventually(lambda: are_rejected(site, 6))

    covered = ranges(results)
    assert len(covered) >= 3
    assert all(after < through for after, through in covered)
    assert all(before[1] <= after[0] for before, after in pairwise(covered))
    assert (total(results, "x"), total(results, "y")) == (0 + 1 + 2, 3)
    assert sum(r.count for r in results) == 6
    assert all((r.after or 0) < r.serial <= (r.through or 0) for r in results)
    rejected = await site.rejected()
    assert [r.serial for r in rejected] == [3, 5, 9, 11, 15, 17]
    assert {r.reason for r in rejected} == {"not a JSON object", "field 'k': missing or null"}


@promise("operators")
async def test_window_by_count_when_too_few_events_are_there_then_it_waits_and_holds_exactly_that_many(
    site: Site,
) -> None:
    await site.put_results(*({"k": "x", "v": n} for n in range(1, 26)))

    async with site.running(assignment(by_count(10), UPSTREAM)):
        early = await site.until(covers(20))
        await site.put_results(*({"k": "x", "v": n} for n in range(26, 31)))
        done = await site.until(covers(30))

    assert [(r.after, r.through, r.count, r.values["total"]) for r in early] == [
        (0, 10, 10, 55.0),
        (10, 20, 10, 155.0),
    ]
    assert [(r.after, r.through, r.count, r.values["total"]) for r in done[2:]] == [(20, 30, 10, 255.0)]


@promise("repeats")
async def test_window_when_the_engine_dies_after_publishing_then_the_repeated_batch_stores_nothing_twice(
    site: Site,
) -> None:
    await site.put_results(*({"k": f"k{n % 3}", "v": n} for n in range(12)))
    job = assignment(by_count(6), UPSTREAM)
    query = site.query(job)
    publish = query.sink

    class Dying:
        def begin(self) -> None:
            publish.begin()

        def __call__(self, *published: Any) -> None:
            publish(*published)
            raise RuntimeError("killed before the commit")

    query.sink = Dying()  # type: ignore[assignment]
    await asyncio.to_thread(query.start)
    async with asyncio.timeout(WITHIN_S):
        while await asyncio.to_thread(query.is_active):
            await asyncio.sleep(0.05)
    before = await site.results()

    async with site.running(job):
        after = await site.until(lambda results: len(results) >= 6)

    assert ranges(before) == [(0, 6)]
    assert after[: len(before)] == before
    assert ranges(after) == [(0, 6), (6, 12)]
    assert len(after) == 6


async def test_window_when_run_twice_on_the_same_input_then_it_is_cut_where_the_runs_found_it(
    site: Site, tmp_path: Path
) -> None:
    await site.put("site.a", *({"k": "x", "v": 1} for _ in range(4)))
    job = assignment(processing_window(size_s=3600))
    async with site.running(job):
        early = await site.until(covers(4))
    await site.put("site.a", *({"k": "x", "v": 1} for _ in range(3)))
    async with site.running(job):
        first_run = await site.until(covers(7))

    again = replace(site, checkpoint=tmp_path / "again" / "checkpoint")
    async with again.running(job):
        both_runs = await site.until(lambda results: len(results) == 3)

    assert ranges(early) == [(0, 4)]
    assert ranges(first_run) == [(0, 4), (4, 7)]
    assert (both_runs[2].after, both_runs[2].through, both_runs[2].count) == (0, 7, 7)


async def test_recompute_when_given_a_published_range_then_ids_and_bodies_are_the_same_to_the_letter(
    site: Site,
) -> None:
    aggregates = {
        **SUMS,
        "mean": {"function": "avg", "field": "v"},
        "p": {"function": "percentile", "field": "v", "q": 0.9},
        "spread": {"function": "stddev", "field": "v"},
        "kinds": {"function": "distinct", "field": "v"},
    }
    await site.put("site.a", *({"k": f"k{n % 4}", "v": n / 7} for n in range(40)), "rubbish", {"k": None})
    await site.put("site.other", {"v": 1})
    job = assignment(processing_window(aggregates=aggregates))
    async with site.running(job):
        await site.until(covers(43))
    published = [body.decode() for body in await site.bodies("OUT_job")]
    (covered,) = ranges(await site.results())

    recomputed = await asyncio.to_thread(recompute_window, site.session, site.settings, job, *covered)
    joined = await asyncio.to_thread(recompute_window, site.session, site.settings, job, 2, 5)
    nothing = await asyncio.to_thread(recompute_window, site.session, site.settings, job, 40, 42)

    assert [body for _, body in recomputed] == published
    assert len({identity for identity, _ in recomputed}) == len(recomputed) == 4
    one = Result.model_validate_json(joined[0][1])
    assert (one.after, one.through, one.serial, one.count) == (2, 5, 3, 1)
    assert len(joined) == 3
    assert nothing == []


async def test_recompute_when_events_are_gone_then_the_error_says_which(site: Site) -> None:
    await site.put("site.a", *({"k": "x", "v": n} for n in range(9)))
    await site.connection.jetstream().purge_stream("IN", seq=6)

    with pytest.raises(TowpathError) as raised:
        await asyncio.to_thread(
            recompute_window, site.session, site.settings, assignment(processing_window()), 2, 8
        )

    assert raised.value.detail.code is ErrorCode.EVENTS_LOST
    assert "serials 3..5 of IN" in raised.value.detail.message


@pytest.mark.parametrize(
    ("operator", "after", "through", "field"),
    [
        ({"kind": "forward"}, 0, 5, "operator.kind"),
        (processing_window(), 5, 3, "through"),
        (processing_window(), -1, 3, "through"),
    ],
)
def test_recompute_when_it_makes_no_sense_then_the_error_names_the_field(
    session: SparkSession, operator: dict[str, Any], after: int, through: int, field: str
) -> None:
    with pytest.raises(TowpathError) as raised:
        recompute_window(session, SETTINGS, assignment(operator), after, through)

    assert raised.value.detail.field == field


@pytest.mark.parametrize(
    ("job", "field", "said"),
    [
        (assignment(processing_window(), DEVICE, UPSTREAM), "inputs", "merge the inputs first"),
        (assignment(by_count(10)), "inputs.0.topic", "forward it first"),
        (
            assignment(by_count(10), UPSTREAM, max_events_per_batch=9),
            "max_events_per_batch",
            "one micro-batch",
        ),
        (
            assignment(processing_window(aggregates={"t": {"function": "sum", "field": "k"}})),
            "operator.aggregates.t.field",
            "needs numbers",
        ),
    ],
    ids=["two inputs", "count of a device topic", "bound below the count", "sum of strings"],
)
def test_analysis_when_micro_batches_cannot_be_the_windows_then_the_error_names_field_and_remedy(
    session: SparkSession, tmp_path: Path, job: Assignment, field: str, said: str
) -> None:
    with pytest.raises(TowpathError) as raised:
        compile_for(session, replace(SETTINGS, directory=tmp_path), job, tmp_path / "pause")

    assert raised.value.detail.field == field
    assert said in raised.value.detail.message


def test_aggregates_when_a_window_over_event_time_has_the_same_events_then_values_and_keys_are_equal(
    session: SparkSession,
) -> None:
    fields = {"k": "string", "at": "timestamp", "v": "double", "n": "long"}
    functions = ["sum", "avg", "min", "max", "stddev", "distinct", "count"]
    aggregates = {f"{f}_{x}": {"function": f, "field": x} for f in functions for x in ("v", "n")}
    events = [
        {"k": "a", "at": "2026-01-01T00:00:00Z", "v": v, "n": n}
        for v, n in [(0.1, 2**62), (0.2, 2**62), (None, 2**62), (1e300, None), (-1e300, -5)]
    ]
    source = messages(session, *events)
    shared = {"fields": fields, "key": ["k", "at"], "aggregates": aggregates}
    by_event_time = assignment({"kind": "window", "event_time": "at", "size_s": 60, **shared})
    by_processing = assignment({"kind": "processing_window", "size_s": 60, **shared})

    (expected,) = computed(by_event_time, source).bodies.values()
    (made,) = computed(by_processing, source).bodies.values()

    one, other = json.loads(made), json.loads(expected)
    assert (one.pop("after"), one.pop("through")) == (0, 1000)
    other.pop("window")
    assert one == other
