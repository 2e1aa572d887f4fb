"""Fault rules on a real bus and a real state store: what senders and receivers see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from redis.asyncio import Redis

from running.rules import Rules, rule
from running.servers import Server
from running.waiting import WITHIN_S, eventually
from towpath.agent.passing import looked_at
from towpath.bus import Bus
from towpath.checkpoints.inventory import inventory
from towpath.checkpoints.receiving import receive
from towpath.checkpoints.transfer import send
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.fault_commands import RulesSet, SetRules
from towpath.contracts.message import Command, Event
from towpath.contracts.reply import Done
from towpath.lab.faults.board import Board

SEND, RECEIVE = {"point": "bus.send"}, {"point": "bus.receive"}
COMMAND = {"point": "agent.command"}
SOON_S = 0.8
"""Time to wait before a test concludes that nothing happens, or that something has not ended yet."""

GIVE_UP_S = 3.0
"""Time limit of a source whose target takes everything and confirms nothing."""


class Ask(Command[Done]):
    subject = "towpath.v1.command.{site}.ask"
    answer = Done
    example = {}
    site: str = "jfk"
    job: str = "delays"


class Told(Event):
    subject = "towpath.v1.event.told"
    example = {}
    n: int = 0


class Carried:
    """Rules that this process applies as soon as they are loaded."""

    def __init__(self, directory: Path) -> None:
        self.rules = Rules(directory / "faults" / "jfk.json")
        self.board = Board(self.rules.file, "jfk-agent")

    def load(self, *rules: dict[str, Any]) -> None:
        self.rules.load(*rules)
        self.board.look()

    def unload(self) -> None:
        self.rules.unload()
        self.board.look()


@pytest.fixture
def faults(tmp_path: Path) -> Iterator[Carried]:
    carried = Carried(tmp_path)
    yield carried
    carried.unload()


@pytest.fixture
async def bus(nats_server: Server) -> AsyncIterator[Bus]:
    url = nats_server.url
    async with await Bus.connect(url, "", "", name="test", within_s=WITHIN_S) as bus:
        yield bus


@pytest.fixture
async def asked(bus: Bus) -> list[Ask]:
    """Answer at once as an agent does. Return the commands that arrive."""
    return await serving(bus)


async def serving(bus: Bus, wrapped: Callable[[Any], Any] = lambda handler: handler) -> list[Ask]:
    asked: list[Ask] = []

    async def handle(command: Ask) -> Done:
        asked.append(command)
        return Done()

    await bus.serve(Ask, wrapped(handle), site="jfk")
    await bus.connection.flush()
    return asked


async def refused(work: Awaitable[Any]) -> TowpathError:
    with pytest.raises(TowpathError) as caught:
        await work
    return caught.value


@pytest.mark.parametrize("point", [SEND, RECEIVE])
async def test_command_when_dropped_then_is_missed_in_time_and_later_ones_are_answered(
    bus: Bus, asked: list[Ask], faults: Carried, point: dict[str, str]
) -> None:
    faults.load(rule(point, "drop", 'subject.endsWith(".ask")'))
    error = await refused(bus.request(Ask(), deadline_s=SOON_S))
    assert error.detail.code is ErrorCode.DEADLINE
    assert asked == []

    faults.unload()
    assert await bus.request(Ask(), deadline_s=WITHIN_S) == Done()


async def test_command_when_only_its_first_attempt_is_lost_then_the_next_is_answered(
    bus: Bus, asked: list[Ask], faults: Carried
) -> None:
    faults.load(rule(SEND, "drop", once=True))
    assert await bus.request(Ask(), deadline_s=WITHIN_S, attempt_s=0.2) == Done()
    assert len(asked) == 1


async def test_command_when_held_up_longer_than_its_deadline_then_its_sender_is_told_in_time(
    bus: Bus, asked: list[Ask], faults: Carried
) -> None:
    faults.load(rule(SEND, "delay", parameters={"ms": 600_000}))
    async with asyncio.timeout(WITHIN_S):
        error = await refused(bus.request(Ask(), deadline_s=SOON_S))
    assert error.detail.code is ErrorCode.DEADLINE


@pytest.mark.parametrize("point", [SEND, RECEIVE])
async def test_command_when_it_comes_twice_then_is_carried_out_once(
    bus: Bus, asked: list[Ask], faults: Carried, point: dict[str, str]
) -> None:
    faults.load(rule(point, "duplicate", 'subject.endsWith(".ask")', parameters={"times": 3}))
    assert await bus.request(Ask(), deadline_s=WITHIN_S) == Done()
    assert len(asked) == 1


async def test_command_when_damaged_then_is_refused_as_unreadable(
    bus: Bus, asked: list[Ask], faults: Carried
) -> None:
    faults.load(rule(RECEIVE, "corrupt", 'subject.endsWith(".ask")', parameters={"how": "truncate"}))
    error = await refused(bus.request(Ask(), deadline_s=WITHIN_S))
    assert error.detail.code is ErrorCode.INVALID
    assert asked == []


async def test_command_when_receiving_it_throws_then_the_answer_says_so(
    bus: Bus, asked: list[Ask], faults: Carried
) -> None:
    faults.load(rule(RECEIVE, "throw", 'subject.endsWith(".ask")', parameters={"message": "out of order"}))
    error = await refused(bus.request(Ask(), deadline_s=WITHIN_S))
    assert error.detail.code is ErrorCode.FAILED
    assert "out of order" in error.detail.message


async def test_answer_when_lost_on_its_way_back_then_the_command_is_sent_again_and_carried_out_once(
    bus: Bus, asked: list[Ask], faults: Carried
) -> None:
    faults.load(rule(RECEIVE, "drop", 'subject.startsWith("_INBOX")', once=True))
    assert await bus.request(Ask(), deadline_s=WITHIN_S, attempt_s=0.2) == Done()
    assert len(asked) == 1


async def test_answer_when_all_are_lost_then_the_sender_is_told_in_time(
    bus: Bus, asked: list[Ask], faults: Carried
) -> None:
    faults.load(rule(RECEIVE, "drop", 'subject.startsWith("_INBOX")'))
    error = await refused(bus.request(Ask(), deadline_s=SOON_S))
    assert error.detail.code is ErrorCode.DEADLINE
    await eventually(lambda: asked)
    assert len(asked) == 1


async def test_answer_when_damaged_on_its_way_back_then_is_refused_as_unreadable(
    bus: Bus, asked: list[Ask], faults: Carried
) -> None:
    how = {"how": "truncate"}
    faults.load(rule(RECEIVE, "corrupt", 'subject.startsWith("_INBOX")', parameters=how))
    error = await refused(bus.request(Ask(), deadline_s=WITHIN_S))
    assert "unreadable reply" in error.detail.message


async def test_sending_when_it_throws_then_senders_see_what_a_broken_connection_shows_them(
    bus: Bus, asked: list[Ask], faults: Carried
) -> None:
    faults.load(rule(SEND, "throw", parameters={"message": "no line"}))
    with pytest.raises(nats.errors.Error, match="no line"):
        await bus.publish(Told())
    error = await refused(bus.request(Ask(), deadline_s=SOON_S))
    assert error.detail.code is ErrorCode.UNREACHABLE
    assert asked == []


async def test_events_when_dropped_repeated_and_damaged_then_the_rest_arrives_in_order(
    bus: Bus, faults: Carried
) -> None:
    told: list[int] = []
    last = asyncio.Event()

    async def hear(event: Told) -> None:
        told.append(event.n)
        if event.n == 5:
            last.set()

    await bus.subscribe(Told, hear)
    await bus.connection.flush()
    faults.load(
        rule(RECEIVE, "drop", "event.n == 1"),
        rule(RECEIVE, "duplicate", "event.n == 2"),
        rule(RECEIVE, "corrupt", "event.n == 3", parameters={"how": "truncate"}),
        rule(RECEIVE, "delay", "event.n == 4", parameters={"ms": 100}),
    )
    for n in range(6):
        await bus.publish(Told(n=n))
    await asyncio.wait_for(last.wait(), WITHIN_S)
    assert told == [0, 2, 2, 4, 5]


async def test_rules_when_everything_is_dropped_then_can_still_be_changed(bus: Bus, faults: Carried) -> None:
    async def handle(command: SetRules) -> RulesSet:
        return RulesSet(scope="jfk")

    await bus.serve(SetRules, handle, site="jfk")
    await bus.connection.flush()
    faults.load(rule(SEND, "drop"), rule(RECEIVE, "drop"))
    command = SetRules(site="jfk", revision=1, lease_s=5.0)
    assert (await bus.request(command, deadline_s=WITHIN_S)).scope == "jfk"


async def test_agent_command_when_a_rule_looks_at_it_then_sees_command_and_job(
    bus: Bus, faults: Carried
) -> None:
    asked = await serving(bus, looked_at)
    faults.load(
        rule(COMMAND, "throw", 'command == "ask" && event.id == "a"', parameters={"message": "not now"}),
        rule(COMMAND, "drop", where={"job": "other"}),
        rule(COMMAND, "delay", 'event.id == "c"', parameters={"ms": 50}),
        rule(COMMAND, "duplicate", 'event.id == "d"'),
    )
    failed = await refused(bus.request(Ask(id="a"), deadline_s=WITHIN_S))
    assert (failed.detail.code, "not now" in failed.detail.message) == (ErrorCode.FAILED, True)
    dropped = await refused(bus.request(Ask(id="b", job="other"), deadline_s=SOON_S))
    assert dropped.detail.code is ErrorCode.DEADLINE
    for identifier in ("c", "d"):
        await bus.request(Ask(id=identifier), deadline_s=WITHIN_S)
    assert [command.id for command in asked] == ["c", "d", "d"]

    # A command that was not executed is executed when it is sent again.
    faults.unload()
    await bus.request(Ask(id="a"), deadline_s=WITHIN_S)
    await bus.request(Ask(id="b", job="other"), deadline_s=WITHIN_S)
    assert [command.id for command in asked[3:]] == ["a", "b"]


@pytest.fixture
async def redis(redis_server: Server) -> AsyncIterator[Redis]:
    client = Redis(port=redis_server.port, socket_timeout=5)
    yield client
    await client.aclose()


SHIP = {"point": "checkpoint.ship"}
CHANGELOG = 'path == "state/0/0/3.changelog"'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    root = tmp_path / "source" / "checkpoint"
    for path, content in {"metadata": b"{}", "commits/3": b"v1\n{}", "state/0/0/3.changelog": b"123"}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


async def sent(redis: Redis, checkpoint: Path, within_s: float = WITHIN_S) -> str:
    done = await send(redis, "m1", checkpoint, {}, name="n", generation="g1", within_s=within_s, job="delays")
    return done.digest


async def test_chunks_when_repeated_and_held_up_then_the_state_is_the_same(
    redis: Redis, checkpoint: Path, tmp_path: Path, faults: Carried
) -> None:
    faults.load(
        rule(SHIP, "duplicate", "size(payload) > 2", where={"job": "delays"}),
        rule(SHIP, "delay", CHANGELOG, parameters={"ms": 50}),
    )
    arriving = asyncio.create_task(
        receive(redis, "m1", tmp_path / "in", tmp_path / "none", name="n", consumer="cloud")
    )
    assert await sent(redis, checkpoint) == await asyncio.wait_for(arriving, WITHIN_S)
    assert inventory(tmp_path / "in") == inventory(checkpoint)


async def test_chunks_when_one_is_lost_then_the_target_refuses_the_state(
    redis: Redis, checkpoint: Path, tmp_path: Path, faults: Carried
) -> None:
    faults.load(rule(SHIP, "drop", CHANGELOG))
    sending = asyncio.create_task(refused(sent(redis, checkpoint, within_s=GIVE_UP_S)))
    error = await refused(
        receive(redis, "m1", tmp_path / "in", tmp_path / "none", name="n", consumer="cloud")
    )
    assert error.detail.code is ErrorCode.FAILED
    assert (await sending).detail.code is ErrorCode.FAILED


async def test_chunks_when_one_is_damaged_then_the_state_does_not_arrive_and_the_source_gives_up(
    redis: Redis, checkpoint: Path, tmp_path: Path, faults: Carried
) -> None:
    faults.load(rule(SHIP, "corrupt", CHANGELOG))
    arriving = asyncio.create_task(
        receive(redis, "m1", tmp_path / "in", tmp_path / "none", name="n", consumer="cloud")
    )
    error = await refused(sent(redis, checkpoint, within_s=SOON_S))
    assert error.detail.code is ErrorCode.FAILED
    assert not arriving.done()
    arriving.cancel()
    await asyncio.wait({arriving})


async def test_shipping_when_it_throws_then_the_source_fails_with_it(
    redis: Redis, checkpoint: Path, faults: Carried
) -> None:
    faults.load(rule(SHIP, "throw", CHANGELOG, parameters={"error": "OSError", "message": "disk"}))
    with pytest.raises(OSError, match="disk"):
        await sent(redis, checkpoint)
