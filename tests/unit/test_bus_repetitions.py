"""Repeated commands at one bus: a repetition joins the execution that is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from running.waiting import WITHIN_S, eventually
from towpath.bus import Bus, bus
from towpath.contracts.monitor import StopMonitor
from towpath.contracts.reply import Done, Reply

COMMAND = StopMonitor(operation="m1")


class Connection:
    """Takes subscriptions and published answers."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.deliver: Callable[[Any], Awaitable[None]] | None = None
        self.answers: dict[str, bytes] = {}

    async def subscribe(self, subject: str, cb: Callable[[Any], Awaitable[None]]) -> None:
        self.deliver = cb

    async def publish(self, subject: str, body: bytes, **_: Any) -> None:
        self.answers[subject.removeprefix("_INBOX.")] = body

    async def send(self, reply: str, command: StopMonitor = COMMAND) -> None:
        assert self.deliver is not None
        subject, body = command.to_subject(), command.to_bytes()
        await self.deliver(SimpleNamespace(subject=subject, data=body, headers=None, reply=f"_INBOX.{reply}"))


@pytest.fixture
def connection() -> Connection:
    return Connection()


async def served(connection: Connection, handler: Callable[[StopMonitor], Awaitable[Done]]) -> Bus:
    bus = Bus(connection)  # type: ignore[arg-type]
    await bus.serve(StopMonitor, handler)
    return bus


async def all_ended(bus: Bus) -> None:
    async with asyncio.timeout(WITHIN_S):
        while bus._tasks:
            await asyncio.sleep(0)


async def test_repetition_when_the_first_is_under_way_then_both_get_its_answer(
    connection: Connection,
) -> None:
    executed, go_on = [], asyncio.Event()

    async def handler(command: StopMonitor) -> Done:
        executed.append(command.id)
        await go_on.wait()
        return Done(note="once")

    bus = await served(connection, handler)
    await connection.send("first")
    await connection.send("second")
    await asyncio.sleep(0)
    go_on.set()
    await all_ended(bus)

    notes = [
        Reply[Done].model_validate_json(connection.answers[at]).unwrap().note for at in ("first", "second")
    ]
    assert (len(executed), notes) == (1, ["once", "once"])


async def test_repetition_when_many_others_were_answered_meanwhile_then_still_joins_the_first(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "REMEMBERED_ANSWERS", 2)
    executed, go_on = [], asyncio.Event()

    async def handler(command: StopMonitor) -> Done:
        executed.append(command.id)
        if command.id == COMMAND.id:
            await go_on.wait()
        return Done()

    mesh = await served(connection, handler)
    await connection.send("first")
    for number in range(4):
        await connection.send(f"other-{number}", StopMonitor(operation=f"m{number}"))
        await eventually(lambda number=number: f"other-{number}" in connection.answers)
    await connection.send("second")
    await asyncio.sleep(0)
    go_on.set()
    await all_ended(mesh)

    assert executed.count(COMMAND.id) == 1
    assert {"first", "second"} <= connection.answers.keys()


async def test_repetition_when_the_first_execution_is_cancelled_then_gets_no_answer_and_may_come_again(
    connection: Connection,
) -> None:
    executed, cancelled = [], asyncio.Event()

    async def handler(command: StopMonitor) -> Done:
        executed.append(command.id)
        if len(executed) == 1:
            await cancelled.wait()
            raise asyncio.CancelledError
        return Done(note="again")

    bus = await served(connection, handler)
    await connection.send("first")
    await connection.send("second")
    await asyncio.sleep(0)
    cancelled.set()
    await all_ended(bus)
    unanswered = dict(connection.answers)
    await connection.send("third")
    await all_ended(bus)

    assert unanswered == {}
    assert Reply[Done].model_validate_json(connection.answers["third"]).unwrap().note == "again"
