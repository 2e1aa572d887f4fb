"""Broadcasts as the coordinator keeps and delivers them, whatever is killed between two writes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from running.waiting import eventually
from towpath.contracts import data_plane
from towpath.contracts.broadcast import (
    BroadcastChanged,
    BroadcastState,
    BroadcastView,
    Content,
    DeliverBroadcast,
    ListBroadcasts,
    SendBroadcast,
    ShowBroadcast,
    SiteBroadcast,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Event, now
from towpath.contracts.site import SiteState
from towpath.coordinator import broadcasts
from towpath.coordinator.broadcasts import UNCONFIRMED, BroadcastCommands
from towpath.coordinator.registry import broadcasts as registry_of
from towpath.coordinator.registry import jobs
from towpath.coordinator.situation import Situation
from towpath.streams.broadcasts import time_left

WAITING, DELIVERED, EXPIRED = BroadcastState.WAITING, BroadcastState.DELIVERED, BroadcastState.EXPIRED


class Mesh:
    """A registry that outlives coordinators, sites and a bus."""

    def __init__(self) -> None:
        self.hashes: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.names = ["cloud", "jfk"]
        self.down: set[str] = set()
        self.refusal: TowpathError | None = None
        self.got: list[DeliverBroadcast] = []
        self.told: list[BroadcastChanged] = []
        self.stores = asyncio.Event()
        """Not set while the registry is away. Then it may still store what it was given."""
        self.stores.set()
        self.killed_after = 1_000_000
        """Writes to the registry until the coordinator is killed."""

    async def call(self, method: str, key: str, *values: str) -> Any:
        found = self.hashes[key]
        match method, values:
            case "hgetall", ():
                return dict(found)
            case "hget", (name,):
                return found.get(name)
            case "hlen", ():
                return len(found)
            case _:
                raise AssertionError(method)

    async def write(self, *commands: tuple[str, ...], check: Callable[[], None] = lambda: None) -> None:
        check()
        await self.stores.wait()
        if self.killed_after <= 0:
            raise asyncio.CancelledError
        self.killed_after -= 1
        for verb, key, *values in commands:
            match verb, values:
                case "HSET", [name, text]:
                    self.hashes[key][name] = text
                case "HDEL", names:
                    for name in names:
                        self.hashes[key].pop(name, None)
                case _:
                    raise AssertionError(verb)

    def check_known(self, site: str, field: str) -> None:
        if site not in self.names:
            raise TowpathError.unknown("site", site, self.names, field=field)

    def state(self, site: str) -> SiteState:
        return SiteState.DOWN if site in self.down else SiteState.UP

    async def request(self, command: DeliverBroadcast, *, deadline_s: float) -> SiteBroadcast:
        if self.refusal is not None:
            raise self.refusal
        self.got.append(command)
        return SiteBroadcast(site=command.site, state=DELIVERED, at=now(), subscriptions=3)

    async def publish(self, event: Event) -> None:
        assert isinstance(event, BroadcastChanged)
        self.told.append(event)

    async def serve(self, *_: Any) -> None:
        """Take no commands: tests call the handlers."""

    async def coordinator(self) -> BroadcastCommands:
        """Start a coordinator that finds the registry as the last one left it."""
        self.killed_after = 1_000_000
        played = cast("Any", self)
        commands = BroadcastCommands(Situation(played, played, played, played), self.publish)
        await commands.serve(played)
        return commands

    def kept_contents(self) -> list[str]:
        return [*self.hashes[registry_of.CONTENTS]]


def send(name: str, **fields: Any) -> SendBroadcast:
    return SendBroadcast(id=name, topic="lamps", payload=name, **fields)


async def looked(commands: BroadcastCommands) -> None:
    """Let a coordinator look once for what it has to deliver."""
    await commands.expire()
    if tasks := commands.start():
        await asyncio.wait(tasks)


def states(view: BroadcastView) -> dict[str, BroadcastState]:
    return {each.site: each.state for each in view.sites}


@pytest.fixture
def mesh() -> Mesh:
    return Mesh()


async def test_broadcast_when_no_site_is_named_then_goes_once_to_each_and_its_content_is_forgotten(
    mesh: Mesh,
) -> None:
    view = await (await mesh.coordinator()).send(send("b1"))

    assert states(view) == {"cloud": DELIVERED, "jfk": DELIVERED}
    assert sorted(each.site for each in mesh.got) == ["cloud", "jfk"]
    assert [each.subscriptions for each in mesh.told] == [3, 3]
    assert mesh.kept_contents() == []


async def test_broadcasts_when_a_site_comes_back_then_it_gets_them_in_the_order_of_acceptance(
    mesh: Mesh,
) -> None:
    commands, mesh.down = await mesh.coordinator(), {"jfk"}
    for name in ("b2", "b1", "b3"):
        view = await commands.send(send(name))
    assert states(view) == {"cloud": DELIVERED, "jfk": WAITING}

    mesh.down, again = set(), await mesh.coordinator()
    await looked(again)

    assert [each.broadcast for each in mesh.got if each.site == "jfk"] == ["b2", "b1", "b3"]


async def test_broadcast_when_its_command_comes_again_then_is_not_sent_again(mesh: Mesh) -> None:
    await (await mesh.coordinator()).send(send("b1"))

    view = await (await mesh.coordinator()).send(send("b1"))

    assert states(view) == {"cloud": DELIVERED, "jfk": DELIVERED}
    assert len(mesh.got) == len(mesh.told) == 2


async def test_broadcast_when_the_registry_stores_it_after_its_sender_has_given_up_then_is_delivered_once(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "QUERY_S", 0.01)
    commands = await mesh.coordinator()
    mesh.stores.clear()
    with pytest.raises(TowpathError, match="the registry does not answer"):
        await commands.send(send("b1"))

    mesh.stores.set()
    await eventually(mesh.kept_contents)
    await looked(commands)
    view = await commands.send(send("b1"))

    assert states(view) == {"cloud": DELIVERED, "jfk": DELIVERED}
    assert sorted(each.site for each in mesh.got) == ["cloud", "jfk"]


@pytest.mark.parametrize("writes", range(5))
async def test_broadcast_when_the_coordinator_is_killed_after_any_write_then_all_or_none_get_it(
    mesh: Mesh, writes: int
) -> None:
    commands, mesh.killed_after = await mesh.coordinator(), writes
    with suppress(asyncio.CancelledError):
        await commands.send(send("b1"))

    again = await mesh.coordinator()
    await looked(again)
    found = (await again.list_broadcasts(ListBroadcasts())).broadcasts

    assert mesh.kept_contents() == []
    accepted = writes >= 1
    assert [states(view) for view in found] == [{"cloud": DELIVERED, "jfk": DELIVERED}] * accepted
    assert {each.site for each in mesh.got} == ({"cloud", "jfk"} if accepted else set())


async def test_broadcast_when_it_expires_before_a_site_is_up_then_is_told_once_and_never_delivered(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands, mesh.down = await mesh.coordinator(), {"jfk"}
    await commands.send(send("b1", expires_s=60))
    monkeypatch.setattr(broadcasts, "now", lambda: now() + timedelta(seconds=61))

    mesh.down = set()
    await looked(commands)
    await looked(commands)

    assert states(await commands.show(ShowBroadcast(broadcast="b1"))) == {"cloud": DELIVERED, "jfk": EXPIRED}
    assert [(each.site, each.state) for each in mesh.told] == [("cloud", DELIVERED), ("jfk", EXPIRED)]
    assert [each.site for each in mesh.got] == ["cloud"]


async def test_broadcast_when_a_site_does_not_confirm_then_says_that_it_may_have_it_also_when_expired(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = await mesh.coordinator()
    mesh.refusal = TowpathError(ErrorCode.DEADLINE, "no answer")
    await commands.send(send("b1", expires_s=60, sites=["jfk"]))
    monkeypatch.setattr(broadcasts, "now", lambda: now() + timedelta(seconds=61))

    await looked(commands)

    (site,) = (await commands.show(ShowBroadcast(broadcast="b1"))).sites
    assert (site.state, site.note) == (EXPIRED, f"{UNCONFIRMED}: no answer")


async def test_broadcast_when_no_one_listens_at_a_site_then_it_waits_without_a_note(mesh: Mesh) -> None:
    mesh.refusal = TowpathError(ErrorCode.UNREACHABLE, "no one answers this command")

    view = await (await mesh.coordinator()).send(send("b1", sites=["jfk"]))

    assert [(each.state, each.note) for each in view.sites] == [(WAITING, "")]


async def test_broadcast_to_an_unknown_site_then_is_refused_and_nothing_is_kept(mesh: Mesh) -> None:
    commands = await mesh.coordinator()

    with pytest.raises(TowpathError) as refusal:
        await commands.send(send("b1", sites=["jfk", "mars"]))

    assert (refusal.value.detail.code, refusal.value.detail.field) == (ErrorCode.UNKNOWN_SITE, "sites.1")
    assert mesh.kept_contents() == []


async def test_broadcast_when_too_much_waits_already_then_is_refused(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcasts, "MOST_WAITING_BYTES", 3)
    commands, mesh.down = await mesh.coordinator(), {"jfk"}
    await commands.send(send("b1"))

    with pytest.raises(TowpathError) as refusal:
        await commands.send(send("b2"))

    assert refusal.value.detail.code is ErrorCode.BUSY


async def test_broadcast_that_is_unknown_when_asked_for_then_is_named(mesh: Mesh) -> None:
    with pytest.raises(TowpathError) as refusal:
        await (await mesh.coordinator()).show(ShowBroadcast(broadcast="b9"))

    assert (refusal.value.detail.code, refusal.value.detail.value) == (ErrorCode.UNKNOWN_COMMAND, "b9")


async def test_broadcasts_that_are_over_when_there_are_many_then_the_oldest_are_forgotten(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_of, "KEPT", 2)
    commands = await mesh.coordinator()
    for name in ("b1", "b2", "b3", "b4"):
        await commands.send(send(name))

    found = await commands.list_broadcasts(ListBroadcasts())

    assert [view.broadcast for view in found.broadcasts] == ["b4", "b3"]


@pytest.mark.parametrize("payload", [b"", b"off", "über".encode(), b"\xff\x00"])
def test_payload_when_it_becomes_fields_of_a_command_then_comes_out_as_it_was(payload: bytes) -> None:
    content = Content(topic="lamps", **Content.fields_for(payload))

    assert content.to_payload() == payload


def test_payload_that_is_no_base64_then_is_refused() -> None:
    with pytest.raises(ValueError, match="not base64"):
        Content(topic="lamps", payload="off!", base64=True)


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.*", "a.b", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        ("a.*", "a.b.c", False),
        ("a.b.c", "a.b", False),
        (">", "a", True),
    ],
)
def test_pattern_when_it_is_compared_with_a_subject_then_matches_as_in_nats(
    pattern: str, subject: str, expected: bool
) -> None:
    assert data_plane.subject_matches(pattern, subject) is expected


def test_stored_message_when_it_is_given_on_later_then_it_expires_at_the_same_time() -> None:
    stored = {"Nats-TTL": "60", "Nats-Time-Stamp": "2026-01-01T00:00:00.123456789Z"}
    at = datetime(2026, 1, 1, 0, 0, 20, 123456, tzinfo=UTC)

    assert time_left(stored, at) == {"Nats-TTL": "40"}
    assert time_left(stored, at + timedelta(hours=1)) == {"Nats-TTL": "1"}
    assert time_left({}, at) == {}
