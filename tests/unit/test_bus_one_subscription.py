"""Commands of several kinds that one subscription brings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from towpath.bus import Bus
from towpath.contracts.message import Command
from towpath.contracts.metrics import Echo
from towpath.contracts.reply import Done
from towpath.contracts.site_commands import MeasureState
from towpath.contracts.uplink import ReportUplinks

TO_JFK = "towpath.v1.command.jfk.*"


class Connection:
    """Takes subscriptions and answers."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.subscriptions: dict[str, Callable[[Any], Awaitable[None]]] = {}
        self.answered: list[str] = []

    async def subscribe(self, subject: str, cb: Callable[[Any], Awaitable[None]]) -> SimpleNamespace:
        self.subscriptions[subject] = cb

        async def unsubscribe() -> None:
            del self.subscriptions[subject]

        return SimpleNamespace(unsubscribe=unsubscribe)

    async def publish(self, subject: str, body: bytes, **_: Any) -> None:
        self.answered.append(subject)


@pytest.fixture
def connection() -> Connection:
    return Connection()


@pytest.fixture
def bus(connection: Connection) -> Bus:
    return Bus(connection)  # type: ignore[arg-type]


async def send(bus: Bus, connection: Connection, command: Command[Any]) -> None:
    """Deliver a command, and wait until what it began has ended."""
    message = SimpleNamespace(
        subject=command.to_subject(), data=command.to_bytes(), headers=None, reply=f"_INBOX.{command.verb()}"
    )
    await connection.subscriptions[TO_JFK](message)
    for task in [*bus._tasks]:
        await task


async def done(_: Command[Any]) -> Done:
    return Done()


async def test_commands_when_served_in_one_subscription_then_each_kind_is_answered(
    bus: Bus, connection: Connection
) -> None:
    async with bus.one_subscription(TO_JFK):
        await bus.serve(Echo, done, site="jfk")
        await bus.serve(MeasureState, done, site="jfk")

    await send(bus, connection, Echo(site="jfk"))
    await send(bus, connection, MeasureState(site="jfk", operation="m1", job="hourly"))

    assert ([*connection.subscriptions], connection.answered) == (
        [TO_JFK],
        ["_INBOX.echo", "_INBOX.measure-state"],
    )


async def test_commands_when_some_were_served_before_then_no_other_subscription_brings_them(
    bus: Bus, connection: Connection
) -> None:
    await bus.serve(Echo, done, site="jfk")
    await bus.serve(Echo, done, site="lga")
    async with bus.one_subscription(TO_JFK):
        await bus.serve(MeasureState, done, site="jfk")

    await send(bus, connection, Echo(site="jfk"))

    assert {*connection.subscriptions} == {TO_JFK, "towpath.v1.command.lga.echo"}
    assert connection.answered == ["_INBOX.echo"]


async def test_command_when_of_a_kind_that_is_not_served_then_is_left_to_others(
    bus: Bus, connection: Connection
) -> None:
    async with bus.one_subscription(TO_JFK):
        await bus.serve(Echo, done, site="jfk")

    await send(bus, connection, ReportUplinks(site="jfk"))

    assert connection.answered == []


async def test_commands_when_not_all_could_be_served_then_none_is_taken(
    bus: Bus, connection: Connection
) -> None:
    async def serve_some() -> None:
        async with bus.one_subscription(TO_JFK):
            await bus.serve(Echo, done, site="jfk")
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        await serve_some()

    assert [*connection.subscriptions] == []


async def test_command_when_not_under_the_wildcard_then_is_refused(bus: Bus, connection: Connection) -> None:
    async def serve_another() -> None:
        async with bus.one_subscription(TO_JFK):
            await bus.serve(Echo, done, site="lga")

    with pytest.raises(ValueError, match="lga"):
        await serve_another()
