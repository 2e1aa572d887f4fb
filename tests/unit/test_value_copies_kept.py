"""Copies of the values of other sites: kept, restarted, and deleted only when they are to go."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from nats.aio.client import Client

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.storage import KeepCopies, StorageSpec, ValueCopy, ValueSelection, ValueStream
from towpath.storage import copies as copies_module
from towpath.storage.copies import LAG_S, Copies
from towpath.stored_values.stored_value import StoredValue

METRICS = ValueStream(name="METRICS", created="2026-01-01T00:00:00Z")


class Following:
    """An intake that only notes what it follows."""

    followed: dict[str, list[str]] = {}
    lag_s = 0.0

    def __init__(self, connection: Client, site: str, store: Any) -> None:
        self._site = site

    async def follow(self, streams: Sequence[ValueStream]) -> None:
        """Note the streams."""
        self.followed[self._site] = [stream.name for stream in streams]

    async def stop(self) -> None:
        """Follow none."""
        self.followed[self._site] = []


@pytest.fixture
async def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Copies]:
    monkeypatch.setattr(copies_module, "Intake", Following)
    kept = Copies(cast("Client", None), tmp_path, StorageSpec())
    yield kept
    await kept.close()


async def tell(copies: Copies, **streams: list[ValueStream] | None) -> list[str]:
    told = [ValueCopy(owner=owner, streams=each) for owner, each in streams.items()]
    return (await copies.keep(KeepCopies(site="cloud", copies=told))).owners


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.db"))


def entities(copies: Copies, owner: str) -> list[str]:
    return [series.entity for series in copies.store(owner).read(ValueSelection()).series]


async def test_copy_when_its_owner_is_away_and_no_streams_are_told_then_stays_as_it_is(
    copies: Copies,
) -> None:
    await tell(copies, jfk=[METRICS])
    copies.store("jfk").add([StoredValue("robot", "speed", 1.0, 2.0)])

    owners = await tell(copies, jfk=None)

    assert (owners, entities(copies, "jfk"), Following.followed["jfk"]) == (["jfk"], ["robot"], ["METRICS"])


async def test_copies_when_the_storage_restarts_then_go_on_with_what_they_followed(
    copies: Copies, tmp_path: Path
) -> None:
    await tell(copies, jfk=[METRICS])
    copies.store("jfk").add([StoredValue("robot", "speed", 1.0, 2.0)])
    await tell(copies, jfk=None)
    await copies.close()

    later = Copies(cast("Client", None), tmp_path, StorageSpec())
    await later.start()

    assert (entities(later, "jfk"), Following.followed["jfk"]) == (["robot"], ["METRICS"])
    await later.close()


async def test_copy_when_it_is_not_to_be_kept_then_is_deleted(copies: Copies, tmp_path: Path) -> None:
    await tell(copies, jfk=[METRICS], lga=[METRICS])

    owners = await tell(copies, lga=[METRICS])

    assert (owners, files(tmp_path)) == (["lga"], ["lga.db"])
    with pytest.raises(TowpathError):
        copies.store("jfk")


SOURCES = {"METRICS 2026-01-01T00:00:00Z": time.time()}


async def answers(copies: Copies) -> bool:
    try:
        await copies.complete_store("jfk", None)
    except TowpathError as error:
        return error.detail.code is not ErrorCode.NOT_ALLOWED
    return True


async def told(copies: Copies, sources: dict[str, float] | None) -> bool:
    copy = ValueCopy(owner="jfk", streams=[METRICS], sources=sources)
    await copies.keep(KeepCopies(site="cloud", copies=[copy]))
    return await answers(copies)


async def test_copy_when_it_has_all_sources_of_its_owner_then_is_complete(copies: Copies) -> None:
    not_known = await told(copies, None)
    not_read = await told(copies, SOURCES)
    copies.store("jfk").add([], dict.fromkeys(SOURCES, 5))
    read = await answers(copies)
    told_nothing_new = await told(copies, None)

    assert (not_known, not_read, read, told_nothing_new) == (False, False, True, True)


async def test_copy_when_it_is_behind_then_is_not_complete(
    copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    await told(copies, {})

    monkeypatch.setattr(Following, "lag_s", LAG_S + 1)

    assert not await answers(copies)


async def test_copy_when_the_storage_was_killed_before_it_was_deleted_then_is_deleted_later(
    copies: Copies, tmp_path: Path
) -> None:
    await tell(copies, jfk=[METRICS], lga=[METRICS])
    await copies.close()
    only = [ValueCopy(owner="lga", streams=[METRICS])]
    (tmp_path / "copies.json").write_bytes(copies_module._LIST.dump_json(only))

    later = Copies(cast("Client", None), tmp_path, StorageSpec())
    await later.start()

    assert files(tmp_path) == ["lga.db"]
    await later.close()
