"""The monitor on real streams: when it calls two runs consistent, and when not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from running.monitored_job import INPUT, NEW, OLD, MonitoredJob, monitored_job, result, running_monitor
from running.servers import Server
from running.waiting import eventually
from towpath.contracts.errors import ErrorCode, TowpathError


@pytest.fixture
async def job(nats_server: Server) -> AsyncIterator[MonitoredJob]:
    url = nats_server.url
    async with running_monitor(url), monitored_job(url) as job:
        yield job


def delay(epoch: int, serial: int, mean: float) -> tuple[str, bytes]:
    return f"counts/{serial}", result(epoch, serial, values={"mean_delay": mean})


async def test_runs_are_consistent_when_the_target_has_caught_up_and_results_are_equal(
    job: MonitoredJob,
) -> None:
    await job.publish(OLD, delay(OLD, 1, 1.0))
    await job.open_shadow()
    await job.start()
    await job.publish(NEW, delay(NEW, 2, 0.1 + 0.2), delay(NEW, 3, 5.0), delay(NEW, 4, 6.0))
    await job.publish(OLD, delay(OLD, 2, 0.3), delay(OLD, 3, 5.0))
    job.serials = {"jfk": {INPUT: 3}, "lga": {INPUT: 4}}
    found = await job.consistency()
    assert (found.compared, found.position) == (2, 2)
    assert await job.stop() == ""


async def test_runs_are_refused_when_one_result_differs(job: MonitoredJob) -> None:
    await job.open_shadow()
    await job.start()
    await job.publish(OLD, delay(OLD, 1, 1.0), delay(OLD, 2, 2.0))
    await job.publish(NEW, delay(NEW, 1, 1.0), delay(NEW, 2, 2.5))
    with pytest.raises(TowpathError) as refused:
        await job.consistency()
    detail = refused.value.detail
    assert detail.code is ErrorCode.FAILED
    assert "counts/2" in detail.message
    assert (detail.field, detail.value, detail.allowed) == ("values.mean_delay", 2.5, "2.0")


async def test_runs_are_not_consistent_when_the_target_stays_behind(job: MonitoredJob) -> None:
    await job.open_shadow()
    job.serials = {"jfk": {INPUT: 30}, "lga": {INPUT: 12}}
    with pytest.raises(TowpathError) as late:
        await job.consistency(within_s=5)
    assert "lga is 18 behind in jfk/site/departures" in late.value.detail.message


async def test_runs_become_consistent_when_the_target_catches_up_while_it_is_awaited(
    job: MonitoredJob,
) -> None:
    await job.open_shadow()
    job.serials = {"jfk": {INPUT: 30}, "lga": {INPUT: 12}}
    awaiting = asyncio.create_task(job.consistency())
    await eventually(job.was_asked)
    assert not awaiting.done()
    job.serials["lga"][INPUT] = 30
    assert (await awaiting).compared == 0


async def test_runs_are_consistent_only_when_the_target_has_the_newest_result_of_the_source(
    job: MonitoredJob,
) -> None:
    job.trigger_s = 5.0
    await job.open_shadow()
    job.serials = {"jfk": {INPUT: 4}, "lga": {INPUT: 4}}
    await job.start()
    await job.publish(OLD, delay(OLD, 1, 1.0), delay(OLD, 2, 2.0))
    awaiting = asyncio.create_task(job.consistency())
    await job.publish(NEW, delay(NEW, 1, 1.0))
    done, _ = await asyncio.wait([awaiting], timeout=7.0)
    assert not done
    await job.publish(NEW, delay(NEW, 2, 2.0))
    assert (await awaiting).compared == 2


async def test_runs_are_consistent_in_the_end_when_the_target_never_has_the_newest_result_of_the_source(
    job: MonitoredJob,
) -> None:
    await job.open_shadow()
    await job.start()
    await job.publish(OLD, delay(OLD, 1, 1.0))
    await job.publish(NEW, delay(NEW, 2, 2.0))
    job.serials = {"jfk": {INPUT: 2}, "lga": {INPUT: 2}}
    assert (await job.consistency()).compared == 0


async def test_stop_succeeds_when_nothing_was_compared(job: MonitoredJob) -> None:
    assert await job.stop() == "nothing was compared"


async def test_awaiting_ends_when_the_comparison_is_stopped(job: MonitoredJob) -> None:
    await job.open_shadow()
    job.serials = {"jfk": {INPUT: 30}, "lga": {INPUT: 12}}
    awaiting = asyncio.create_task(job.consistency())
    await eventually(job.was_asked)
    await job.stop()
    with pytest.raises(TowpathError, match="stopped"):
        await awaiting


async def test_comparison_ends_when_the_shadow_is_gone(job: MonitoredJob) -> None:
    with pytest.raises(TowpathError, match="there is no SHADOW_counts"):
        await job.consistency()


async def test_runs_are_not_consistent_when_the_target_only_has_a_fresh_checkpoint(job: MonitoredJob) -> None:
    await job.open_shadow()
    job.events = 0
    job.serials = {"jfk": {INPUT: 30}, "lga": {INPUT: 31}}
    with pytest.raises(TowpathError):
        await job.consistency(within_s=5)


async def test_runs_are_consistent_when_there_is_nothing_to_process(job: MonitoredJob) -> None:
    await job.open_shadow()
    job.events = 0
    job.serials = {"jfk": {INPUT: 30}, "lga": {INPUT: 30}}
    assert (await job.consistency()).compared == 0
