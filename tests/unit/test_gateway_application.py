"""An application whose parts fail in ways that no one foresaw is restarted, and says so."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from running.waiting import eventually
from towpath.gateway import application, restarts
from towpath.gateway.application import Application
from towpath.gateway.worker import Start
from towpath.gateway.worker_process import WorkerEnded
from towpath.gateways.manifest import read_manifest
from towpath.gateways.package_shelf import Installed

MANIFEST = {
    "name": "thin",
    "version": "1",
    "input": {"topics": ["sensors/#"]},
    "operators": [{"operator": "sample", "every": 1}],
    "output": "site/thin",
}
REPORT = {"results": [{"n": 1}], "rejected": 0, "reason": None, "state": [None], "done": 1}


class Worker:
    """A run that gives one report, and then waits until it is killed."""

    pid = 1

    def __init__(self) -> None:
        self.reports: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.reports.put_nowait(REPORT)

    async def read(self) -> dict[str, Any]:
        if (report := await self.reports.get()) is None:
            raise WorkerEnded("killed")
        return report

    async def kill(self) -> None:
        self.reports.put_nowait(None)


class Source:
    """Input that fails at the places that are named."""

    received = malformed = 0

    def __init__(self, *failing: str) -> None:
        self.failing = {*failing}
        self.runs = 0

    async def run(self) -> None:
        self.runs += 1
        self._fail("run")
        await asyncio.Event().wait()

    async def next(self) -> None:
        self._fail("next")
        await asyncio.Event().wait()

    def _fail(self, place: str) -> None:
        if place in self.failing:
            self.failing.discard(place)
            raise RuntimeError(place)

    def send_again(self) -> None: ...

    def done(self, number: int) -> None: ...


@pytest.mark.parametrize("place", ["sink", "next", "run"])
async def test_application_when_something_unforeseen_fails_then_goes_on_with_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(restarts, "FIRST_S", 0.01)
    monkeypatch.setattr(application, "INPUT_RETRY_S", 0.01)
    source, kept, begun = Source(place), list[Any](), list[Start]()
    failing = [place] if place == "sink" else []

    async def begin(start: Start) -> Worker:
        begun.append(start)
        return Worker()

    def sink(results: list[dict[str, Any]]) -> None:
        if failing:
            raise ValueError(failing.pop())
        kept.extend(results)

    record = Installed(read_manifest(json.dumps(MANIFEST).encode()), "0" * 64, {})
    running = Application(
        record, "pi", tmp_path, tmp_path / "thin", cast("Any", source), sink, cast("Any", begin)
    )
    running.start()
    try:
        await eventually(lambda: kept and (len(begun) == 2 or source.runs == 2))
    finally:
        await running.close()
