"""Events of the coordinator on their way into the EVENTS stream, and rules that look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nats.js.errors import NoStreamResponseError

from running.fault_trial import Bench, loaded
from running.waiting import WITHIN_S
from towpath.bus import announcements
from towpath.bus.announcements import Announcements
from towpath.contracts.fault_commands import RuleLoaded
from towpath.contracts.links import LinkChanged, LinkConditions
from towpath.hooks.points import BUS_SEND

EVENT = LinkChanged(site="jfk", conditions=LinkConditions())


class Stream:
    """Keeps what is published, as a bus whose connection leads to a stream."""

    def __init__(self) -> None:
        self.connection = self
        self.sent: list[bytes] = []
        self.identifiers: set[str] = set()
        self.refusals = 0
        """Messages that are refused before one is kept."""

    def jetstream(self) -> Stream:
        return self

    async def publish(self, subject: str, body: bytes, *, timeout: float, headers: dict[str, str]) -> None:
        if self.refusals:
            self.refusals -= 1
            raise NoStreamResponseError
        self.sent.append(body)
        self.identifiers.add(headers["Nats-Msg-Id"])


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.fixture
def announced(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> Announcements:
    monkeypatch.setattr(announcements, "ATTEMPT_S", 0.01)
    monkeypatch.setattr(announcements, "AGAIN_S", 0.001)
    monkeypatch.setattr(announcements, "WITHIN_S", WITHIN_S)
    bus: Any = stream
    return Announcements(bus)


def look(monkeypatch: pytest.MonkeyPatch, directory: Path, fault: dict[str, Any], **how: Any) -> None:
    rule = Bench(directory).active(loaded({"point": "bus.send"}, fault, **how))
    monkeypatch.setattr(BUS_SEND, "rules", (rule,))


@pytest.mark.parametrize("fault", ["drop", "throw"])
async def test_event_when_a_rule_keeps_its_first_sending_then_it_is_sent_again(
    announced: Announcements, stream: Stream, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str
) -> None:
    look(monkeypatch, tmp_path, {"fault": fault}, once=True)
    await announced.publish(EVENT)
    assert stream.sent == [EVENT.to_bytes()]


async def test_event_when_the_stream_has_no_leader_for_a_while_then_is_kept(
    announced: Announcements, stream: Stream
) -> None:
    stream.refusals = 20
    await announced.publish(EVENT)
    assert stream.sent == [EVENT.to_bytes()]


async def test_event_when_it_is_sent_twice_then_the_stream_can_tell_that_it_is_one(
    announced: Announcements, stream: Stream, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    look(monkeypatch, tmp_path, {"fault": "duplicate"}, condition=f'subject == "{EVENT.to_subject()}"')
    await announced.publish(EVENT)
    assert stream.sent == [EVENT.to_bytes()] * 2
    assert len(stream.identifiers) == 1


async def test_event_when_it_is_about_rules_then_no_rule_looks_at_it(
    announced: Announcements, stream: Stream, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    look(monkeypatch, tmp_path, {"fault": "drop"})
    await announced.publish(RuleLoaded(rule="slow", version=1, scopes=["jfk"]))
    assert len(stream.sent) == 1
