"""Messages under a foreign subject are dropped, and told of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from towpath.bus import Bus
from towpath.bus.authenticity import MOST_TOLD, TELL_EVERY_S, ForeignSubject, Refusals, authentic
from towpath.contracts.commands import RemoveJob
from towpath.contracts.events import JobChanged, SecurityRefused
from towpath.contracts.message import Message
from towpath.contracts.reply import Done
from towpath.contracts.site import SiteStatus

HEARTBEAT = SiteStatus.model_validate(SiteStatus.example)
REMOVE = RemoveJob(job="hourly-jfk")


@pytest.mark.parametrize("message", [HEARTBEAT, REMOVE, JobChanged.model_validate(JobChanged.example)])
def test_message_when_it_comes_under_its_own_subject_then_is_read(message: Message) -> None:
    assert authentic(type(message), message.to_subject(), message.to_bytes()) == message


@pytest.mark.parametrize(
    ("subject", "belongs_to"),
    [
        ("towpath.v1.heartbeat.lga", "towpath.v1.heartbeat.jfk"),
        ("towpath.v1.event.x.one", None),
        ("towpath.v1.heartbeat.jfk.more", None),
        ("towpath.v1.heartbeat", None),
    ],
)
def test_heartbeat_when_it_comes_under_another_subject_then_is_foreign(
    subject: str, belongs_to: str | None
) -> None:
    with pytest.raises(ForeignSubject) as raised:
        authentic(SiteStatus, subject, HEARTBEAT.to_bytes())
    assert raised.value.belongs_to == belongs_to


async def test_refusals_when_they_come_in_a_flood_then_are_told_of_once_and_counted() -> None:
    now, told = 0.0, Told()
    refusals = Refusals("coordinator", told.publish, lambda: now)
    forged = "SiteStatus", "towpath.v1.heartbeat.lga"

    for _ in range(5):
        await refusals.tell(*forged)
    now = TELL_EVERY_S
    await refusals.tell(*forged)

    assert [(event.times, event.by) for event in told.events] == [(1, "coordinator"), (5, "coordinator")]


async def test_refusals_when_subjects_are_made_up_then_are_told_of_up_to_a_number() -> None:
    told = Told()
    refusals = Refusals("hub", told.publish, lambda: 0.0)

    for number in range(2 * MOST_TOLD):
        await refusals.tell("publish", f"made.up.{number}")

    assert len(told.events) == MOST_TOLD


class Told:
    """Keeps the events that are published."""

    def __init__(self) -> None:
        self.events: list[SecurityRefused] = []

    async def publish(self, event: SecurityRefused) -> None:
        self.events.append(event)


class Connection:
    """Delivers what a test sends, and keeps what the bus publishes."""

    def __init__(self) -> None:
        self.options = {"name": "coordinator"}
        self.published: dict[str, bytes] = {}
        self.deliver: Callable[[Any], Awaitable[None]]

    async def subscribe(self, subject: str, cb: Callable[[Any], Awaitable[None]]) -> None:
        self.deliver = cb

    async def publish(self, subject: str, body: bytes, **_: Any) -> None:
        self.published[subject] = body

    async def send(self, subject: str, message: Message, reply: str = "_INBOX.rogue") -> None:
        data = message.to_bytes()
        await self.deliver(SimpleNamespace(subject=subject, data=data, headers=None, reply=reply))


async def test_command_when_a_stream_delivers_it_then_is_neither_executed_nor_answered() -> None:
    connection, executed = Connection(), []

    async def remove(command: RemoveJob) -> Done:
        executed.append(command.job)
        return Done()

    bus = Bus(connection)  # type: ignore[arg-type]
    await bus.serve(RemoveJob, remove)
    await connection.send("towpath.v1.event.x.one", REMOVE)
    await asyncio.gather(*bus._tasks)

    assert (executed, [*connection.published]) == ([], [SecurityRefused.subject])


async def test_command_when_its_answer_would_be_a_command_then_is_not_answered() -> None:
    connection = Connection()

    async def remove(_: RemoveJob) -> Done:
        return Done()

    bus = Bus(connection)  # type: ignore[arg-type]
    await bus.serve(RemoveJob, remove)
    await connection.send(RemoveJob.subject, REMOVE, reply="towpath.v1.command.jfk.stop-job")
    await asyncio.gather(*bus._tasks)

    assert connection.published == {}


async def test_heartbeat_when_it_names_another_site_then_is_not_handled() -> None:
    connection, heard = Connection(), []

    async def hear(status: SiteStatus) -> None:
        heard.append(status.site)

    bus = Bus(connection)  # type: ignore[arg-type]
    await bus.subscribe(SiteStatus, hear)
    await connection.send("towpath.v1.heartbeat.lga", HEARTBEAT)
    await connection.send("towpath.v1.heartbeat.jfk", HEARTBEAT)

    assert (heard, [*connection.published]) == (["jfk"], [SecurityRefused.subject])
