"""A process shows that it lives by the age of a file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from running.waiting import eventually
from towpath.bus import Bus
from towpath.mesh.liveness import FILE, showing_life

OFTEN_S = 0.01


@pytest.fixture
def bus() -> Any:
    """All that is asked of a bus: whether it is connected."""
    return cast(Bus, SimpleNamespace(connection=SimpleNamespace(is_connected=True)))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FILE, str(tmp_path / "alive"))
    return tmp_path / "alive"


async def turns() -> None:
    """Let the loop turn often enough for several touches."""
    for _ in range(5):
        await asyncio.sleep(OFTEN_S)


def touched_at(path: Path) -> float:
    return path.stat().st_mtime


def entries(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def made_old(path: Path) -> None:
    os.utime(path, (1000, 1000))


async def test_file_when_the_bus_is_connected_then_is_touched_again_and_again(bus: Any, file: Path) -> None:
    async with showing_life(bus, OFTEN_S):
        await eventually(file.exists)
        made_old(file)
        await eventually(lambda: touched_at(file) > 1000)


async def test_file_when_the_bus_is_lost_then_grows_old_until_it_is_back(bus: Any, file: Path) -> None:
    async with showing_life(bus, OFTEN_S):
        await eventually(file.exists)
        bus.connection.is_connected = False
        await turns()
        made_old(file)
        await turns()
        assert touched_at(file) == 1000
        bus.connection.is_connected = True
        await eventually(lambda: touched_at(file) > 1000)


async def test_file_when_the_work_is_over_then_is_touched_no_more(bus: Any, file: Path) -> None:
    async with showing_life(bus, OFTEN_S):
        await eventually(file.exists)
    made_old(file)
    await turns()
    assert touched_at(file) == 1000


async def test_file_when_it_cannot_be_written_for_a_while_then_is_touched_afterwards(
    bus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "missing"
    monkeypatch.setenv(FILE, str(directory / "alive"))
    async with showing_life(bus, OFTEN_S):
        await turns()
        directory.mkdir()
        await eventually((directory / "alive").exists)


async def test_no_one_when_watching_then_nothing_is_written(
    bus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FILE, raising=False)
    monkeypatch.chdir(tmp_path)
    async with showing_life(bus, OFTEN_S):
        await turns()
    assert entries(tmp_path) == []
