"""Results go out in order, or new ones beside the backlog; what a lost connection took goes out again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from towpath.gateways.completeness import Completeness
from towpath.gateways.forwarding import IN_FLIGHT, Forwarder, Result
from towpath.gateways.result_log import ResultLog


class ScriptedConnection:
    """Takes messages, and acknowledges them when it is told to."""

    def __init__(self) -> None:
        self.window = 1000
        self.sent: list[tuple[dict[str, Any], asyncio.Future[Any]]] = []

    def publish(self, topic: str, payload: bytes) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.sent.append((json.loads(payload), answer))
        return answer

    @property
    def numbers(self) -> list[int]:
        return [message["sequence"] for message, _ in self.sent]

    def acknowledge(self) -> None:
        for _, answer in self.sent:
            if not answer.done():
                answer.set_result([])

    def lose(self) -> None:
        for _, answer in self.sent:
            if not answer.done():
                answer.set_exception(ConnectionError("lost"))


def add(log: ResultLog, count: int) -> None:
    log.append([msgspec.json.encode(Result("a", "site/t", {"n": log.last + n})) for n in range(count)])


def forwarder(
    tmp_path: Path, *, live_first: bool = False, budget: int = 10**6
) -> tuple[ResultLog, Forwarder]:
    log = ResultLog(tmp_path, budget_bytes=budget)
    return log, Forwarder(log, "pi01", live_first=live_first)


async def test_results_when_there_are_many_then_go_out_in_order_as_far_as_the_window_allows(
    tmp_path: Path,
) -> None:
    log, sender = forwarder(tmp_path)
    add(log, IN_FLIGHT + 5)
    connection: Any = ScriptedConnection()
    sender.connected()
    sender.send(connection)
    sender.send(connection)
    assert connection.numbers == [*range(1, IN_FLIGHT + 1)]
    connection.acknowledge()
    sender.send(connection)
    assert connection.numbers == [*range(1, IN_FLIGHT + 6)]
    connection.acknowledge()
    sender.send(connection)
    assert log.waiting() == 0


async def test_results_when_the_disk_is_full_then_go_out_once_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, sender = forwarder(tmp_path)
    add(log, 5)
    connection: Any = ScriptedConnection()

    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log, "save", full)
    for _ in range(3):  # Connections that end before their acknowledgements were looked at.
        sender.connected()
        sender.send(connection)
        connection.acknowledge()
    sender.connected()

    assert connection.numbers == [1, 2, 3, 4, 5]
    assert log.waiting() == 0


async def test_results_when_the_connection_is_lost_then_go_out_again_with_their_numbers(
    tmp_path: Path,
) -> None:
    log, sender = forwarder(tmp_path)
    add(log, 3)
    lost: Any = ScriptedConnection()
    sender.connected()
    sender.send(lost)
    lost.sent[1][1].set_result([])  # The second one was acknowledged, out of order.
    sender.send(lost)
    lost.lose()

    connection: Any = ScriptedConnection()
    sender.connected()
    sender.send(connection)

    assert connection.numbers == [1, 3]


async def test_results_when_live_come_first_then_a_backlog_does_not_block_them(tmp_path: Path) -> None:
    log, sender = forwarder(tmp_path, live_first=True)
    add(log, 1000)
    connection: Any = ScriptedConnection()
    sender.connected()
    add(log, 2)
    sender.send(connection)
    assert connection.numbers[:4] == [1001, 1002, 1, 2]
    while log.waiting():
        connection.acknowledge()
        sender.send(connection)
        add(log, log.last < 1020)
    assert sorted(connection.numbers) == [*range(1, 1021)]
    assert connection.numbers.index(1020) < connection.numbers.index(1000)


async def test_results_when_the_budget_is_exceeded_then_the_receiver_can_name_the_gap(tmp_path: Path) -> None:
    log, sender = forwarder(tmp_path, budget=2000)
    for _ in range(100):
        add(log, 1)
    connection: Any = ScriptedConnection()
    sender.connected()
    sender.send(connection)
    seen = Completeness()
    assert all([seen.take(message) for message, _ in connection.sent])
    assert not seen.take(connection.sent[0][0])
    (gap,) = seen.gaps()["pi01"]
    assert (gap, seen.repeats()) == ((1, log.dropped), 1)
    assert seen.dropped() == {"pi01": log.dropped}
    assert len(connection.sent) == 100 - log.dropped > 0


REFUSED = [ReasonCode(PacketTypes.PUBACK, "Not authorized")]


async def test_results_when_the_broker_refuses_some_then_others_go_on_and_these_are_sent_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, sender = forwarder(tmp_path)
    connection = ScriptedConnection()
    to_send = cast("Any", connection)
    refused = 2 * IN_FLIGHT
    add(log, refused + 5)
    sender.connected()

    def answer() -> None:
        for message, sent in connection.sent:
            if not sent.done():
                sent.set_result(REFUSED if message["sequence"] <= refused and not taken else [])

    taken = False
    for _ in range(5):
        sender.send(to_send)
        answer()
    assert (log.waiting(), sender.refusal is None) == (refused, False)
    assert connection.numbers == [*range(1, refused + 6)]

    monkeypatch.setattr(sender, "_try_at", 0.0)
    sender.send(to_send)
    answer()
    sender.send(to_send)
    assert connection.numbers[refused + 5 :] == [1]

    taken = True
    monkeypatch.setattr(sender, "_try_at", 0.0)
    for _ in range(12):
        sender.send(to_send)
        answer()
    sender.send(to_send)
    assert (log.waiting(), sender.refusal) == (0, None)
    assert connection.numbers[refused + 6] == 2  # Not the one that was refused again.


async def test_refused_results_when_there_is_a_new_connection_then_are_sent_over_it(tmp_path: Path) -> None:
    log, sender = forwarder(tmp_path)
    first, second = ScriptedConnection(), ScriptedConnection()
    add(log, 2)
    sender.connected()
    sender.send(cast("Any", first))
    first.sent[1][1].set_result(REFUSED)
    sender.send(cast("Any", first))

    sender.connected()
    sender.send(cast("Any", second))
    second.acknowledge()
    sender.send(cast("Any", second))

    assert (second.numbers, log.waiting(), sender.refusal) == ([1, 2], 0, None)
