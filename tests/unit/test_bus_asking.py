"""A change that is sent says who asks for it, and is sent again if its receiver may have died."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from nats.errors import TimeoutError as NatsTimeoutError
from pydantic import TypeAdapter

from towpath.bus import Bus
from towpath.bus import bus as bus_module
from towpath.cli.command_spans import person
from towpath.contracts.commands import ListJobs, RemoveJob
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import AskedBy, Command
from towpath.contracts.site_commands import StopJob

REMOVE = RemoveJob(id="c1", job="hourly-jfk")


class Connection:
    """Keeps what the bus asks, and answers nothing that can be read."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.asked: list[bytes] = []

    async def request(self, subject: str, body: bytes, **_: Any) -> Any:
        self.asked.append(body)
        return SimpleNamespace(subject="_INBOX.x", data=b"")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (REMOVE, "ada@laptop"),
        (REMOVE.model_copy(update={"asked_by": "erp"}), "erp"),
        (ListJobs(), None),
        (StopJob(site="jfk", job="hourly-jfk", operation="op1"), None),
    ],
    ids=["change", "change that says it", "question", "step"],
)
async def test_command_when_sent_then_says_who_asks_if_it_is_a_person_s_change(
    command: Command[Any], said: str | None
) -> None:
    connection = Connection()
    bus = Bus(connection)  # type: ignore[arg-type]
    bus.asks_as = "ada@laptop"

    with pytest.raises(TowpathError):
        await bus.request(command, deadline_s=5)

    [body] = connection.asked
    assert type(command).from_bytes(body).asked_by == said
    assert (b"asked_by" in body) == (said is not None), "earlier versions read what has no such field"


class Deaf(Connection):
    """Answers nothing but its last message, and gets the time that the sender waits for each."""

    def __init__(self, answered: int) -> None:
        super().__init__()
        self.waited: list[float] = []
        self._answered = answered

    async def request(self, subject: str, body: bytes, *, timeout: float, **_: Any) -> Any:
        self.asked.append(body)
        self.waited.append(timeout)
        if len(self.asked) < self._answered:
            await asyncio.sleep(timeout)
            raise NatsTimeoutError
        return SimpleNamespace(subject="_INBOX.x", data=b'{"ok": true, "result": {"jobs": []}}')


async def test_command_when_its_receiver_dies_with_it_then_is_sent_again_and_each_time_waits_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bus_module, "FIRST_ATTEMPT_S", 0.06)
    monkeypatch.setattr(bus_module, "RETRY_PAUSE_S", 0.0)
    connection = Deaf(answered=4)

    answer = await Bus(connection).request(ListJobs(), deadline_s=60)  # type: ignore[arg-type]

    assert answer.jobs == []
    assert len({*connection.asked}) == 1, "one identifier, by which the receiver knows the repetition"
    assert len(connection.waited) == 4
    for earlier, later in itertools.pairwise(connection.waited):
        assert later > 1.5 * earlier


def test_person_when_at_the_command_line_then_is_login_and_machine() -> None:
    TypeAdapter(AskedBy).validate_python(person())
    assert "@" in person()
