"""Intake of a site's streams: it notes events that were gone before it came, and how far it is behind."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import pytest
from nats.aio.client import Client

from running.waiting import eventually
from towpath.contracts.data_plane import STORED_AT_HEADER
from towpath.contracts.storage import StorageSpec, ValueStream
from towpath.storage import intake as intake_module
from towpath.storage.intake import Intake
from towpath.stored_values.value_store import ValueStore
from towpath.streams.pages import StoredMessage

METRICS = ValueStream(name="METRICS", created="2026-01-01T00:00:00Z")
KEY = "METRICS 2026-01-01T00:00:00Z"


class Stream:
    """A stream of which the events of some serial numbers are left."""

    serials: list[int] = []
    at_end = True
    is_away = False

    def __init__(self, connection: Client, site: str, stream: str, *, after: int = 0) -> None:
        self.last = after

    async def read(self) -> list[StoredMessage]:
        """Return what is new."""
        if self.is_away:
            raise TimeoutError
        found = [serial for serial in self.serials if serial > self.last]
        self.last = max([self.last, *found])
        stored = {STORED_AT_HEADER: "2026-01-01T00:00:00Z"}
        return [StoredMessage(serial, "site/metrics", stored, b"{}") for serial in found]


@pytest.fixture(autouse=True)
def stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "Follower", Stream)
    monkeypatch.setattr(intake_module, "LOOK_S", 0.001)
    monkeypatch.setattr(intake_module, "STREAMS_S", 0.001)
    for name, value in {"serials": [1, 2], "at_end": True, "is_away": False}.items():
        monkeypatch.setattr(Stream, name, value)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ValueStore]:
    opened = ValueStore("jfk", tmp_path / "values.db", StorageSpec())
    yield opened
    opened.close()


@pytest.fixture
async def intake(store: ValueStore) -> AsyncIterator[Intake]:
    made = Intake(cast("Client", None), "jfk", store)
    yield made
    await made.stop()


async def taken(store: ValueStore, serial: int) -> None:
    await eventually(lambda: store.progress(KEY) >= serial)


def is_whole(store: ValueStore) -> bool:
    return store.is_whole({KEY: time.time()}, None)


async def test_values_when_their_stream_is_read_from_its_first_event_then_are_whole(
    store: ValueStore, intake: Intake
) -> None:
    await intake.follow([METRICS])
    await taken(store, 2)
    Stream.serials.append(3)
    await taken(store, 3)

    assert is_whole(store)


async def test_values_when_their_stream_began_at_another_site_then_are_those_that_came_here(
    store: ValueStore, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_in: list[int] = []
    monkeypatch.setattr(store, "add", lambda values, progress, gap: taken_in.extend(progress.values()))

    await intake.follow([METRICS.model_copy(update={"after": 2})])
    await eventually(lambda: f"{METRICS.name} {METRICS.created}" in intake._at_end)
    Stream.serials.append(3)
    await eventually(lambda: bool(taken_in))

    assert taken_in == [3]


async def test_values_when_events_expired_before_they_were_read_then_are_not_whole(
    store: ValueStore, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stream, "serials", [2])
    monkeypatch.setattr(intake_module, "_stored_at", lambda _: time.time() - 60)

    await intake.follow([METRICS])
    await taken(store, 2)

    assert not is_whole(store)


async def test_values_when_events_expired_while_the_storage_was_away_then_are_not_whole(
    store: ValueStore, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "_stored_at", lambda _: time.time() - 60)
    await intake.follow([METRICS])
    await taken(store, 2)
    await intake.stop()
    before = is_whole(store)

    monkeypatch.setattr(Stream, "serials", [7])
    await intake.follow([METRICS])
    await taken(store, 7)

    assert (before, is_whole(store)) == (True, False)


async def test_lag_when_no_end_was_reached_then_is_infinite(
    store: ValueStore, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    none_followed = intake.lag_s
    monkeypatch.setattr(Stream, "at_end", False)

    await intake.follow([METRICS])
    await taken(store, 2)

    assert (none_followed, intake.lag_s) == (math.inf, math.inf)


async def test_lag_when_a_stream_does_not_answer_then_grows(
    store: ValueStore, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    await intake.follow([METRICS])
    await taken(store, 2)
    await eventually(lambda: intake.lag_s != math.inf)
    monkeypatch.setattr(Stream, "is_away", True)
    await asyncio.sleep(0.01)

    before = intake.lag_s
    await asyncio.sleep(0.01)

    assert intake.lag_s >= before + 0.01
