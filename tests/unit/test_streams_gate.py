"""Requests that a gate lets through, and requests that it refuses."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from running.attacks import consumer
from running.waiting import eventually
from towpath.contracts.data_plane import gate_prefix, mirror_delivery
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.streams import gate as gates
from towpath.streams.gate import Gate

OWN = mirror_delivery("jfk", "cloud") + ".M.x"


class Site:
    """The site jfk, whose gate a request comes to. `cloud` reads IN there."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, str]] = []
        self.told: list[Any] = []
        self.asked: list[tuple[str, str]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.is_known = True
        self.connection = self
        self.gate = Gate(cast("Any", self), "jfk", self.permits)

    async def subscribe(self, subject: str, cb: Any) -> None:
        self.deliver = cb

    async def publish(self, subject: Any, body: bytes = b"", *, reply: str = "", headers: Any = None) -> None:
        if isinstance(subject, str):
            self.sent.append((subject, body, reply))
        else:
            self.told.append(subject)

    async def permits(self, reader: str, stream: str) -> bool:
        self.asked.append((reader, stream))
        if not self.is_known:
            raise TowpathError(ErrorCode.UNREACHABLE, "no coordinator")
        return (reader, stream) == ("cloud", "IN")

    async def request(self, call: str, body: bytes = b"", reader: str = "cloud", reply: str = "") -> None:
        await self.gate._take(_message(call, body, reader, reply))

    async def arrive(self, call: str, reader: str) -> None:
        await self.deliver(_message(call, b"", reader))

    def own(self, task: asyncio.Task[None]) -> None:
        self.tasks.append(task)


def _message(call: str, body: bytes, reader: str, reply: str = "") -> Any:
    subject = f"{gate_prefix('jfk', reader)}.{call}"
    return SimpleNamespace(subject=subject, data=body, reply=reply or f"_INBOX.{reader}.agent.r")


async def test_request_when_the_reader_reads_the_stream_then_jetstream_answers_it_itself() -> None:
    site = Site()
    await site.request("DIRECT.GET.IN", b'{"seq": 1}')
    assert site.sent == [("$JS.jfk.API.DIRECT.GET.IN", b'{"seq": 1}', "_INBOX.cloud.agent.r")]
    assert site.told == []


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("CONSUMER.CREATE.IN.JS_MIRROR_a", consumer("IN", OWN)),
        ("CONSUMER.CREATE.IN", consumer("IN", OWN, name="JS_MIRROR_a", flow_control=True, sourcing=True)),
    ],
)
async def test_consumer_when_it_feeds_a_mirror_of_the_reader_then_passes(call: str, body: bytes) -> None:
    site = Site()
    await site.request(call, body, reply="$JSC.R.x")
    assert site.sent == [(f"$JS.jfk.API.{call}", body, "$JSC.R.x")]


@pytest.mark.parametrize(
    ("call", "body", "reader"),
    [
        ("STREAM.DELETE.IN", b"", "cloud"),
        ("STREAM.INFO", b"", "cloud"),
        ("STREAM.INFO.OUT_a", b"", "cloud"),
        ("DIRECT.GET.IN", b"", "lga"),
        ("CONSUMER.CREATE.IN", consumer("IN", "towpath.v1.heartbeat.jfk"), "cloud"),
        ("CONSUMER.CREATE.IN", consumer("OUT_a", OWN), "cloud"),
        ("CONSUMER.CREATE.IN", consumer("IN", OWN, durable_name="kept"), "cloud"),
        ("CONSUMER.CREATE.IN", consumer("IN", OWN, name="webhook"), "cloud"),
        ("CONSUMER.CREATE.IN", consumer("IN", OWN, ack_policy="explicit"), "cloud"),
        ("CONSUMER.CREATE.IN", b"[]", "cloud"),
    ],
)
async def test_request_when_the_reader_has_no_business_there_then_is_refused_and_told(
    call: str, body: bytes, reader: str
) -> None:
    site = Site()
    await site.request(call, body, reader)
    [(subject, answer, _)] = site.sent
    assert (subject, json.loads(answer)["error"]["code"]) == (f"_INBOX.{reader}.agent.r", 403)
    assert [event.who for event in site.told] == [reader]


@pytest.mark.parametrize("reply", ["towpath.v1.command.jfk.stop-job", "_INBOX.lga.agent.x", "site.a"])
async def test_request_when_its_answer_would_go_to_others_then_is_refused_without_an_answer(
    reply: str,
) -> None:
    site = Site()
    await site.request("DIRECT.GET.IN", reply=reply)
    assert site.sent == []
    assert [event.who for event in site.told] == ["cloud"]


async def test_reader_when_no_one_can_be_asked_then_passes_only_if_it_did_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gates, "GRANTED_S", 0.0)
    site = Site()
    await site.request("DIRECT.GET.IN")
    site.is_known = False
    await site.request("DIRECT.GET.IN")
    await site.request("DIRECT.GET.METRICS")
    assert [subject for subject, *_ in site.sent] == ["$JS.jfk.API.DIRECT.GET.IN"] * 2


async def test_reader_when_it_was_let_through_then_no_one_is_asked_again_for_some_time() -> None:
    site = Site()
    for _ in range(3):
        await site.request("DIRECT.GET.IN")
    assert site.asked == [("cloud", "IN")]


async def test_reader_when_another_asks_too_much_then_is_heard_nevertheless() -> None:
    site = Site()
    answers = asyncio.Event()

    async def permits(reader: str, stream: str) -> bool:
        site.asked.append((reader, stream))
        await answers.wait()
        return True

    site.gate._permits = permits
    await site.gate.open()
    for number in range(gates.PENDING + 5):
        await site.arrive(f"DIRECT.GET.IN{number}", "lga")
    await site.arrive("DIRECT.GET.IN", "cloud")
    await eventually(lambda: ("cloud", "IN") in site.asked)
    assert len(site.asked) == gates.PENDING + 1

    answers.set()
    await eventually(lambda: len(site.sent) == gates.PENDING + 1)
    await site.arrive("DIRECT.GET.IN", "lga")
    await eventually(lambda: ("lga", "IN") in site.asked)
