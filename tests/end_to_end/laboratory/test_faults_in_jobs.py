"""Fault rules in a query that runs: in Spark's Python workers and in the engine, loaded and unloaded."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from running.engine import Site, assignment
from running.promises import promise
from running.rules import Rules, rule
from running.waiting import eventually
from towpath.contracts.result import Result
from towpath.engine.query import Query
from towpath.lab.faults.board import Board

pytestmark = pytest.mark.timeout(900)

FORWARD = {"kind": "forward"}
READ = {"point": "source.read"}
EVENT = {"point": "operator.event"}
OURS = {"job": "job", "process": "jfk-engine"}
FOLLOWED_S = 3.0
"""Time within which rules take effect, and cease to."""


@pytest.fixture(scope="module")
def session(session: SparkSession, rules: Rules) -> Iterator[SparkSession]:
    """Return the session whose workers read the rules. This process stands for the engine."""
    board = Board(rules.file, "jfk-engine")
    board.start()
    yield session
    board.close()


@pytest.fixture
async def site(site: Site, rules: Rules) -> AsyncIterator[Site]:
    yield site
    rules.unload()


async def put(site: Site, count: int) -> None:
    await site.put("site.a", *({"n": n} for n in range(count)))


def serials(results: list[Result]) -> list[int]:
    return [result.serial for result in results]


def reached(serial: int) -> Callable[[list[Result]], bool]:
    return lambda results: serial in serials(results)


async def followed() -> None:
    """Wait until all processes have followed a change. When nothing must happen, only time can tell."""
    await asyncio.sleep(FOLLOWED_S)


def run_id(query: Query) -> str:
    assert query.running is not None
    return str(query.running.runId)


async def third_comes(site: Site) -> bool:
    """Send the next five events; return whether the third of them came through."""
    last = 5 * (await site.stored() // 5 + 1)
    await put(site, 5)
    return last - 2 in serials(await site.until(reached(last)))


async def test_drop_when_loaded_into_a_running_query_then_exactly_those_events_are_lost(
    site: Site, rules: Rules
) -> None:
    async with site.running(assignment(FORWARD, trigger_s=0.2)) as query:
        assert await third_comes(site)
        before = run_id(query)

        rules.load(rule(READ, "drop", "serial % 5 == 3", where=OURS))
        while await third_comes(site):  # The worker has not read the new rules yet.
            pass
        assert not await third_comes(site)

        rules.unload()
        while not await third_comes(site):
            pass
        assert await third_comes(site)
        assert run_id(query) == before
        lost = set(range(1, await site.stored() + 1)) - set(serials(await site.results()))
    assert len(lost) >= 2
    assert {serial % 5 for serial in lost} == {3}
    assert max(count.acted for count in rules.counts()) == len(lost)


async def test_delay_when_unloaded_then_the_task_it_holds_up_goes_on(site: Site, rules: Rules) -> None:
    async with site.running(assignment(FORWARD, trigger_s=0.2)) as query:
        await put(site, 3)
        await site.until(reached(3))
        before = run_id(query)

        rules.load(rule(EVENT, "delay", every=2, where=OURS, parameters={"ms": 600_000}))
        await followed()
        await put(site, 4)
        await eventually(lambda: [count for count in rules.counts() if count.acted])
        assert set(serials(await site.results())) <= {1, 2, 3, 4}, (
            "one of every two is held up, and those behind it"
        )

        rules.unload()
        assert serials(await site.until(reached(7))) == list(range(1, 8))
        assert run_id(query) == before


async def test_delay_when_on_every_nth_event_then_a_batch_takes_so_much_longer(
    site: Site, rules: Rules
) -> None:
    async with site.running(assignment(FORWARD, trigger_s=0.2)):
        rules.load(rule(EVENT, "delay", every=10, where=OURS, parameters={"ms": 100}))
        await followed()
        begun = time.monotonic()
        await put(site, 200)
        await site.until(reached(200))
        assert time.monotonic() - begun >= 20 * 0.1
    assert max(count.acted for count in rules.counts()) <= 20


async def test_rules_when_expired_then_have_no_effect_though_their_file_is_still_there(
    site: Site, rules: Rules
) -> None:
    async with site.running(assignment(FORWARD, trigger_s=0.2)):
        rules.load(rule(READ, "drop", where=OURS), lease_s=0.1)
        await followed()
        await put(site, 3)
        assert serials(await site.until(reached(3))) == [1, 2, 3]
    assert rules.file.exists()


async def test_rules_when_about_another_process_or_job_then_have_no_effect_here(
    site: Site, rules: Rules
) -> None:
    async with site.running(assignment(FORWARD, trigger_s=0.2)):
        rules.load(
            rule(READ, "drop", where={"process": "jfk-agent"}),
            rule(READ, "drop", where={"job": "other"}),
            rule(READ, "drop", where={"worker": "1"}),
            rule(READ, "drop", "serial == 2", where=OURS),
        )
        await followed()
        await put(site, 3)
        assert serials(await site.until(reached(3))) == [1, 3]


@promise("faults")
async def test_throw_when_a_task_reads_then_the_query_fails_and_the_next_run_goes_on_where_it_was(
    site: Site, rules: Rules
) -> None:
    async with site.running(assignment(FORWARD, trigger_s=0.2)) as query:
        await put(site, 2)
        await site.until(reached(2))
        rules.load(rule(READ, "throw", where=OURS, parameters={"message": "no reading today"}))
        while query.is_active():  # Until the worker has read the rules, events go through.
            await put(site, 1)
            await asyncio.sleep(0.1)
        assert "no reading today" in query.failure()
        assert max(count.acted for count in rules.counts()) >= 1  # The worker ended with what was raised.
        rules.unload()
    last = await site.stored()

    async def goes_on() -> bool:
        async with site.running(assignment(FORWARD, trigger_s=0.2)) as next_run:
            while next_run.is_active() and last not in serials(await site.results()):
                await asyncio.sleep(0.1)
        return last in serials(await site.results())

    await eventually(goes_on)
    assert serials(await site.results()) == list(range(1, last + 1))


async def test_corruption_and_repetition_when_events_are_read_then_they_keep_their_serial_numbers(
    site: Site, rules: Rules
) -> None:
    job = assignment({"kind": "clean", "fields": {"n": {"type": "long", "required": True}}}, trigger_s=0.2)
    async with site.running(job):
        await put(site, 1)
        await site.until(reached(1))
        rules.load(
            rule(READ, "corrupt", "serial == 3", where=OURS, parameters={"how": "truncate", "count": 1}),
            rule(READ, "replace", "serial == 4", where=OURS, parameters={"field": "n", "value": 77}),
            rule(READ, "duplicate", "serial == 5", where=OURS),
        )
        await followed()
        await put(site, 5)
        results = await site.until(reached(6))
        rejected = await site.rejected()
    assert {r.serial: r.values["n"] for r in results} == {1: 0, 2: 0, 4: 77, 5: 3, 6: 4}
    assert [(r.serial, r.event) for r in rejected] == [(3, '{"n": 1')]
    # A repeated event equals the first in every field: the output keeps one of them.
    assert serials(results).count(5) == 1


async def test_results_when_dropped_or_changed_at_the_sink_then_the_others_are_as_they_were(
    site: Site, rules: Rules
) -> None:
    async with site.running(assignment(FORWARD, trigger_s=0.2)):
        rules.load(
            rule({"point": "sink.publish"}, "drop", "event.serial == 2", where=OURS),
            rule(
                {"point": "sink.publish"},
                "replace",
                "serial == 3",
                where={"job": "job"},
                parameters={"field": "values.n", "value": -1},
            ),
        )
        await followed()
        await put(site, 4)
        results = await site.until(reached(4))
    assert {r.serial: r.values["n"] for r in results} == {1: 0, 3: -1, 4: 3}


async def test_metrics_when_emitted_at_points_of_workers_and_engine_then_tell_what_passes(
    site: Site, rules: Rules
) -> None:
    async with site.running(assignment(FORWARD, trigger_s=0.2)) as query:
        await put(site, 1)
        await site.until(reached(1))
        rules.load(
            rule(
                {"point": "operator.batch"}, "emit", parameters={"metric": "bundle_events", "value": "size"}
            ),
            rule(
                {"point": "engine.progress"},
                "emit",
                "event.numInputRows > 0",
                parameters={
                    "metric": "read_events",
                    "value": "event.numInputRows",
                    "labels": {"job": "{event.name}"},
                    "entity": "{job}",
                },
            ),
        )
        await followed()
        await put(site, 7)
        await site.until(reached(8))

        def are_measured() -> bool:
            # As the engine does: it looks for the newest report, and of two that come together it sees one.
            query.take_in_progress()
            passed = sum(metric.value for metric in rules.metrics("bundle_events"))
            return passed == 7 and bool(rules.metrics("read_events"))

        await eventually(lambda: asyncio.to_thread(are_measured))
    (*_, read) = rules.metrics("read_events")
    assert (read.site, read.entity, read.labels["job"]) == ("jfk", "job", "job")
    assert 1 <= read.value <= 7


async def test_rules_when_loaded_before_a_worker_starts_then_hold_from_its_first_event(
    site: Site, rules: Rules
) -> None:
    rules.load(rule(READ, "drop", "event.n == 1", where=OURS))
    await followed()
    await put(site, 3)
    async with site.running(assignment(FORWARD, trigger_s=0.2)):
        assert serials(await site.until(reached(3))) == [1, 3]
    assert json.loads(rules.file.read_text())["rules"]
