"""Connections that do not come back: a new one is made each time the last has ended."""

from __future__ import annotations

from typing import Any

import pytest
from nats.aio.client import Client

from towpath.bus import connecting
from towpath.bus.connecting import FreshConnection, Login, remembered


class Connection:
    """A client that may be cut."""

    def __init__(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> FreshConnection:
    async def connect_once(*_: Any, **__: Any) -> Connection:
        return Connection()

    monkeypatch.setattr(connecting, "connect_once", connect_once)
    return FreshConnection(Login("nats://127.0.0.1:4222", "user", "secret"), "test")


async def test_connection_when_it_lives_then_is_the_same(fresh: FreshConnection) -> None:
    assert await fresh.get() is await fresh.get()


async def test_connection_when_it_was_cut_then_another_one_takes_its_place(fresh: FreshConnection) -> None:
    first = await fresh.get()
    await first.close()

    assert await fresh.get() is not first


async def test_connection_when_it_is_closed_then_the_client_is(fresh: FreshConnection) -> None:
    client = await fresh.get()

    await fresh.close()

    assert client.is_closed


def test_inbox_when_earlier_ones_are_known_then_cannot_be_foreseen() -> None:
    client = connecting.unguessable(Client())
    tokens = [client.new_inbox().rpartition(".")[2] for _ in range(3)]
    assert {len(token) for token in tokens} == {22}, "the client cuts subjects at this length"
    assert len({token[:4] for token in tokens}) == 3


def test_password_when_it_cannot_be_read_then_is_the_last_known_one() -> None:
    answers: list[str | Exception] = ["second", FileNotFoundError(), "third"]

    def read() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    password = remembered("first", read)

    assert [password(), password(), password()] == ["second", "second", "third"]
