"""Faults do to real processes what they say, when their cue comes, and undo it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from running.guard_trial import WRITER
from running.waiting import eventually
from towpath.contracts.events import StepDone
from towpath.lab.drill import faults
from towpath.lab.drill.cues import Cues
from towpath.lab.drill.faults import Victim, deliver_twice, fill_disk, kill, lose_reply, stop
from towpath.lab.drill.matrix import ActorName
from towpath.mesh.home import Home
from towpath.processes import ChildSpec, launch


class FakeConnection:
    """Remembers what was published."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes]] = []

    async def publish(self, subject: str, data: bytes, headers: Any = None) -> None:
        self.published.append((subject, data))


class FakeBus:
    def __init__(self) -> None:
        self.connection = FakeConnection()


class FakeStage:
    """The parts of a stage that faults of one machine need."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.prompter = FakeBus()


class Command:
    """A command as NATS brings it."""

    subject = "towpath.v1.command.b.resume"
    reply = "_INBOX.hub.coordinator.x"
    data = b'{"id":"0123456789ab-resume"}'
    headers = None


@pytest.fixture
def stage(tmp_path: Path) -> Any:
    return FakeStage(Home(tmp_path).create())


@contextlib.contextmanager
def running(stage: Any, name: str, script: str = WRITER) -> Iterator[psutil.Process]:
    command = (sys.executable, "-c", script, str(stage.home.root / f"{name}.txt"))
    started = launch(ChildSpec(name=name, command=command, log=stage.home.log(name)), stage.home.run)
    try:
        yield psutil.Process(started.pid)
    finally:
        started.kill()
        started.wait()


@contextlib.asynccontextmanager
async def under_way(work: Any) -> AsyncIterator[asyncio.Task[float]]:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_kill_when_step_begins_then_process_dies_and_not_before(stage: Any) -> None:
    cues = Cues("j", "resume")
    with running(stage, "b-agent") as process:
        async with under_way(kill(stage, Victim(stage, ActorName.TARGET_AGENT, "a", "b"), cues)) as fault:
            await cues.on_step(StepDone(operation="m", job="j", step="resume", phase="confirmed"))
            await cues.on_step(StepDone(operation="m", job="other", step="resume", phase="begun"))
            await asyncio.wait({fault}, timeout=0.2)
            assert not fault.done()
            await cues.on_step(StepDone(operation="m", job="j", step="resume", phase="begun"))
            await fault
        await eventually(lambda: process.status() == psutil.STATUS_ZOMBIE)


async def test_stop_when_over_then_process_runs_again(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "OUTAGE_S", 0.3)
    cues = Cues("j", "resume")
    with running(stage, "coordinator") as process:
        async with under_way(stop(stage, Victim(stage, ActorName.COORDINATOR, "a", "b"), cues)) as fault:
            cues.begun.set()
            await eventually(lambda: process.status() == psutil.STATUS_STOPPED)
            await fault
        assert process.status() != psutil.STATUS_STOPPED


async def test_stop_when_drill_is_interrupted_then_process_runs_again(stage: Any) -> None:
    cues = Cues("j", "resume")
    with running(stage, "coordinator") as process:
        async with under_way(stop(stage, Victim(stage, ActorName.COORDINATOR, "a", "b"), cues)):
            cues.begun.set()
            await eventually(lambda: process.status() == psutil.STATUS_STOPPED)
        await eventually(lambda: process.status() != psutil.STATUS_STOPPED)


async def test_stop_when_victim_is_an_engine_then_its_children_stop_too(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "OUTAGE_S", 0.5)
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    cues = Cues("j", "resume")
    with running(stage, "a-engine", script) as process:
        await eventually(process.children)
        (child,) = process.children()
        async with under_way(stop(stage, Victim(stage, ActorName.SOURCE_ENGINE, "a", "b"), cues)) as fault:
            cues.begun.set()
            await eventually(lambda: child.status() == psutil.STATUS_STOPPED)
            await fault
        await eventually(lambda: child.status() != psutil.STATUS_STOPPED)
        child.kill()


async def test_disk_full_when_it_lasts_then_writes_are_refused_and_afterwards_not(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "OUTAGE_S", 0.5)
    cues = Cues("j", "resume")
    target = stage.home.root / "a-agent.txt"
    with running(stage, "a-agent"):
        await eventually(target.exists)
        assert not target.with_suffix(".refused").exists()
        async with under_way(
            fill_disk(stage, Victim(stage, ActorName.SOURCE_AGENT, "a", "b"), cues)
        ) as fault:
            cues.begun.set()
            await eventually(target.with_suffix(".refused").exists)
            await fault
        target.unlink()
        await eventually(lambda: target.exists() and target.read_text() == "x")


async def test_twice_when_command_is_seen_then_it_is_sent_again_as_it_was(stage: Any) -> None:
    cues = Cues("j", "resume")
    victim = Victim(stage, ActorName.TARGET_AGENT, "a", "b")
    async with under_way(deliver_twice(stage, victim, cues)) as fault:
        await cues.on_command(Command())  # type: ignore[arg-type]
        await fault
    assert stage.prompter.connection.published == [(Command.subject, Command.data)]


async def test_lose_reply_when_step_is_answered_then_coordinator_dies_without_having_run(stage: Any) -> None:
    cues = Cues("j", "resume")
    victim = Victim(stage, ActorName.TARGET_AGENT, "a", "b")
    with running(stage, "coordinator") as process:
        async with under_way(lose_reply(stage, victim, cues)) as fault:
            await cues.on_command(Command())  # type: ignore[arg-type]
            await eventually(lambda: process.status() == psutil.STATUS_STOPPED)
            reply = Command()
            reply.subject = Command.reply
            await cues.on_reply(reply)  # type: ignore[arg-type]
            await fault
        await eventually(lambda: process.status() == psutil.STATUS_ZOMBIE)


async def test_cue_when_compensation_of_the_step_is_sent_then_is_not_given() -> None:
    cues = Cues("j", "resume")
    undo = Command()
    undo.data = b'{"id":"0123456789ab-resume-undo"}'
    await cues.on_command(undo)  # type: ignore[arg-type]
    assert not cues.command.done()
    cues.command.cancel()
