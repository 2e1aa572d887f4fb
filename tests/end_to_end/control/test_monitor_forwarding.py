"""The monitor on diverted results: it forwards the source's windows until the target's can follow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from running.monitored_job import (
    INPUT,
    INTERIM,
    NEW,
    OLD,
    OUTPUT,
    MonitoredJob,
    monitored_job,
    result,
    running_monitor,
)
from running.servers import Server
from running.waiting import eventually
from towpath.contracts.commands import ConsistencyCheck
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.streams.failures import Unpublished
from towpath.streams.publisher import Outgoing, PublisherBeside


@pytest.fixture
async def url(nats_server: Server) -> str:
    return nats_server.url


@pytest.fixture
async def job(url: str) -> AsyncIterator[MonitoredJob]:
    """A job whose results are diverted."""
    async with monitored_job(url) as job:
        job.check = ConsistencyCheck.SERIALS
        await job.publish(OLD, window(OLD, 0, 5))
        await job.open_shadow()
        yield job


def window(epoch: int, after: int, through: int, key: str = "") -> tuple[str, bytes]:
    body = result(epoch, through, after=after, through=through, key={"carrier": key})
    return name(after, through, key), body


def name(after: int, through: int, key: str = "") -> str:
    return f"counts/processed/{after}/{through}{key}"


async def test_windows_of_the_source_reach_the_output_when_they_are_diverted(
    job: MonitoredJob, url: str
) -> None:
    async with running_monitor(url):
        await job.start()
        await job.publish(OLD, window(OLD, 5, 9, "a"), window(OLD, 5, 9, "b"), batch="1.7")
        await eventually(lambda: job.has([name(0, 5), name(5, 9, "a"), name(5, 9, "b")]))
        stored = await job.output()
        assert [m.headers["Towpath-Batch"] for m in stored] == ["1.0", "1.7", "1.7"]
        assert stored[-1].subject == f"sink.jfk.hub.counts.{INTERIM}"
        assert stored[-1].identity.startswith(f"{job.life}/")


async def test_rejected_events_of_both_reach_the_dead_letters_once_when_they_are_diverted(
    job: MonitoredJob, url: str
) -> None:
    async with running_monitor(url):
        await job.start()
        await job.reject(OLD, 7, 8)
        await job.reject(NEW, 8, 9)
        wanted = [f"{job.life}/counts/rejected/0/{n}" for n in (7, 8, 9)]
        await eventually(lambda: job.rejected_are(wanted))


async def test_straddling_window_is_computed_again_when_the_target_reaches_beyond_the_source(
    job: MonitoredJob, url: str
) -> None:
    async with running_monitor(url):
        await job.start()
        await job.publish(OLD, window(OLD, 5, 9))
        await job.publish(NEW, window(NEW, 7, 12, "a"), window(NEW, 7, 12, "b"))
        await job.publish(OLD, window(OLD, 9, 14))
        await job.publish(NEW, window(NEW, 12, 15))
        found = await job.consistency()
        assert (found.offset, found.forwarded) == (-3, 1)
        assert job.recomputed == [(9, 12)]
        assert [amended.identity for amended in found.amended] == [name(9, 12)]
        assert await job.identities() == [name(0, 5), name(5, 9)]
        shadow = await job.shadow()
        behind = [m.identity.partition("/")[2] for m in shadow if m.serial > found.position]
        assert behind == [name(9, 14), name(12, 15)]


async def test_straddling_window_is_computed_again_when_the_engine_was_away_at_first(
    job: MonitoredJob, url: str
) -> None:
    job.refusals = [ErrorCode.DEADLINE]
    async with running_monitor(url):
        await job.start()
        await job.publish(OLD, window(OLD, 5, 9))
        await job.publish(NEW, window(NEW, 7, 12))
        await job.publish(OLD, window(OLD, 9, 14))
        await job.publish(NEW, window(NEW, 12, 15))
        with pytest.raises(TowpathError, match="the engine does not answer"):
            await job.consistency()
        # As the coordinator asks: again after an error that may pass.
        assert (await job.consistency(identifier="a2")).offset == -3
        assert job.recomputed == [(9, 12), (9, 12)]


async def test_decision_waits_when_more_keys_of_the_last_windows_may_come(
    job: MonitoredJob, url: str
) -> None:
    async with running_monitor(url):
        job.serials = {"jfk": {INPUT: 5}, "lga": {INPUT: 7}}
        await job.publish(OLD, window(OLD, 5, 9, "a"))
        await job.publish(NEW, window(NEW, 7, 12, "a"))
        awaiting = asyncio.create_task(job.consistency())
        await eventually(job.was_asked)
        await job.publish(OLD, window(OLD, 5, 9, "b"))
        await job.publish(NEW, window(NEW, 7, 12, "b"))
        await eventually(lambda: job.has([name(0, 5), name(5, 9, "a"), name(5, 9, "b")]))
        assert not awaiting.done()
        job.serials = {"jfk": {INPUT: 9}, "lga": {INPUT: 12}}
        assert (await awaiting).position == 4


async def test_source_is_extended_by_the_algorithms_when_results_are_compared(
    job: MonitoredJob, url: str
) -> None:
    job.check, job.factor = ConsistencyCheck.RESULTS, 2
    job.serials = {"jfk": {INPUT: 9}, "lga": {INPUT: 11}}
    async with running_monitor(url):
        await job.start()
        await job.publish(OLD, window(OLD, 5, 9))
        await job.publish(NEW, window(NEW, 7, 11))
        found = await job.consistency()
        assert (found.offset, found.position, found.forwarded) == (-2, 2, 0)
        assert job.recomputed == [(5, 11)]
        assert await job.identities() == [name(0, 5)]


async def test_next_monitor_decides_alike_when_the_first_one_is_gone(job: MonitoredJob, url: str) -> None:
    async with running_monitor(url):
        await job.start()
        await job.reject(OLD, 8)
        await job.publish(OLD, window(OLD, 5, 9))
        await eventually(lambda: job.has([name(0, 5), name(5, 9)]))
    await job.forget_ids()
    await job.publish(OLD, window(OLD, 9, 14))
    async with running_monitor(url):
        await job.start()
        await eventually(lambda: job.has([name(0, 5), name(5, 9), name(9, 14)]))
        assert await job.rejected_are([f"{job.life}/counts/rejected/0/8"])
        await job.publish(NEW, window(NEW, 7, 14), window(NEW, 14, 20))
        job.serials = {"jfk": {INPUT: 14}, "lga": {INPUT: 20}}
        found = await job.consistency()
        assert (found.offset, found.forwarded, found.amended) == (0, 2, [])


async def test_results_are_stored_once_when_the_output_is_cut_off_until_it_has_forgotten_their_ids(
    job: MonitoredJob, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, publish = list[str](), PublisherBeside.publish

    async def cut_off(publisher: PublisherBeside, messages: Sequence[Outgoing], **where: str) -> int:
        if stored:
            return await publish(publisher, messages, **where)
        stored.extend(each.identity for each in messages[:1])
        await publish(publisher, messages[:1], **where)
        await job.forget_ids()
        raise Unpublished("no acknowledgement")

    monkeypatch.setattr(PublisherBeside, "publish", cut_off)
    async with running_monitor(url):
        await job.publish(OLD, window(OLD, 5, 9, "a"), window(OLD, 5, 9, "b"))
        await job.start()
        await eventually(lambda: job.has([name(0, 5), name(5, 9, "a"), name(5, 9, "b")]))
    assert len(stored) == 1


async def test_results_are_stored_once_when_two_monitors_forward_them(job: MonitoredJob, url: str) -> None:
    async with running_monitor(url), running_monitor(url):
        await job.start()
        for n in range(5, 25):
            await job.publish(OLD, window(OLD, n, n + 1))
        wanted = [name(0, 5), *(name(n, n + 1) for n in range(5, 25))]
        await eventually(lambda: job.has(wanted))
        await job.publish(NEW, window(NEW, 20, 25), window(NEW, 25, 30))
        job.serials = {"jfk": {INPUT: 25}, "lga": {INPUT: 30}}
        assert (await job.consistency()).amended == []
        assert await job.has(wanted)


async def test_forwarding_ends_when_the_output_belongs_to_another_epoch(job: MonitoredJob, url: str) -> None:
    async with running_monitor(url):
        await job.start()
        await job.streams.outputs.accept("counts", {NEW + 2: "jfk"}, OUTPUT)
        await job.publish_aside(OLD, window(OLD, 5, 9))
        with pytest.raises(TowpathError, match="the comparison has ended"):
            await job.consistency()
        assert await job.identities() == [name(0, 5)]


async def test_await_fails_and_results_flow_on_when_the_target_is_silent(
    job: MonitoredJob, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.monitor.progress.SILENCE_S", 1.0)
    job.serials = {"jfk": {INPUT: 5}}
    async with running_monitor(url):
        await job.start()
        with pytest.raises(TowpathError, match="lga has not reported for 1 s"):
            await job.consistency()
        await job.publish(OLD, window(OLD, 5, 9))
        await eventually(lambda: job.has([name(0, 5), name(5, 9)]))


async def test_await_fails_when_results_do_not_say_what_they_cover(job: MonitoredJob, url: str) -> None:
    async with running_monitor(url):
        await job.start()
        await job.publish(OLD, ("counts/9", result(OLD, 9)))
        with pytest.raises(TowpathError, match="does not say which serial numbers"):
            await job.consistency()


async def test_await_says_how_far_the_two_are_apart_when_time_is_up(job: MonitoredJob, url: str) -> None:
    job.serials = {"jfk": {INPUT: 40}, "lga": {INPUT: 25}}
    async with running_monitor(url):
        await job.publish(OLD, window(OLD, 5, 40))
        with pytest.raises(TowpathError, match=r"lga is 15 behind .* 1 results forwarded"):
            await job.consistency(within_s=5.0)


async def test_decision_when_the_source_closes_no_window_then_it_is_taken_from_where_it_stood(
    job: MonitoredJob, url: str
) -> None:
    async with running_monitor(url):
        job.serials = {"jfk": {INPUT: 5}, "lga": {INPUT: 12}}
        await job.publish(NEW, window(NEW, 5, 12))
        found = await job.consistency()
        assert (found.offset, found.position, found.amended) == (-7, 0, [])


async def test_decision_when_nothing_comes_in_then_the_target_may_follow_at_once(
    job: MonitoredJob, url: str
) -> None:
    async with running_monitor(url):
        job.serials = {"jfk": {INPUT: 5}, "lga": {INPUT: 5}}
        found = await job.consistency()
        assert (found.offset, found.position, found.amended) == (0, 0, [])


async def test_rest_of_a_window_is_forwarded_when_the_diversion_came_in_its_midst(
    job: MonitoredJob, url: str
) -> None:
    async with running_monitor(url):
        job.serials = {"jfk": {INPUT: 5}, "lga": {INPUT: 5}}
        await job.start()
        await job.publish(OLD, window(OLD, 0, 5, "late"))
        await eventually(lambda: job.has([name(0, 5), name(0, 5, "late")]))
