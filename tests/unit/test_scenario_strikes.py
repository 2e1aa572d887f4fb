"""Strikes do to real processes what they say, at once, and undo it; intercepted commands come to harm."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from running.guard_trial import WITH_CHILD, WRITER, is_gone, is_paused
from running.waiting import eventually
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.faults import TargetKind
from towpath.contracts.links import ShapeLink
from towpath.contracts.scenario_strikes import Interception, Meddling, Strike
from towpath.lab.scenarios import strikes
from towpath.lab.scenarios.interception import CaughtCommand, deliver_twice, lose_reply
from towpath.lab.scenarios.strikes import armed_strike
from towpath.mesh.home import Home
from towpath.processes import ChildSpec, launch


class FakeConnection:
    """Remembers what was published."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes]] = []

    async def publish(self, subject: str, data: bytes, headers: Any = None) -> None:
        self.published.append((subject, data))


class FakeBus:
    """Remembers what was sent."""

    def __init__(self) -> None:
        self.connection = FakeConnection()
        self.commands: list[Any] = []

    async def request(self, command: Any, **deadlines: float) -> None:
        self.commands.append(command)


class FakeStage:
    """The parts of a stage that strikes on one machine need."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.bus = FakeBus()
        self.prompter = FakeBus()


class Command:
    """A command as NATS brings it."""

    subject = "towpath.v1.command.b.resume"
    reply = "_INBOX.hub.coordinator.x"
    data = b'{"id":"0123456789ab-resume","job":"j"}'
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
async def under_way(work: Any) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


SEEN_S = 3.0
"""Duration of a fault that a test must see while it lasts, also on a busy machine."""


def strike(fault: str, name: str, *, for_s: float = 0.5, **parameters: Any) -> Strike:
    others = {"disk_full": TargetKind.DISK, "power": TargetKind.MACHINE}
    target = others.get(fault, TargetKind.PROCESS)
    return Strike(target=target, name=name, fault=fault, parameters=parameters, for_s=for_s)


def caught(do: Meddling) -> CaughtCommand:
    return CaughtCommand(Interception(job="j", step="resume", do=do, within_s=60))


async def test_kill_when_struck_then_process_dies_and_not_when_armed(stage: Any) -> None:
    with running(stage, "b-agent") as process:
        armed = await armed_strike(stage, strike("kill", "b-agent"))
        assert process.status() != psutil.STATUS_ZOMBIE
        await armed()
        await eventually(lambda: process.status() == psutil.STATUS_ZOMBIE)


async def test_kill_when_alone_then_the_family_of_an_engine_lives_on(stage: Any) -> None:
    with running(stage, "a-engine", WITH_CHILD) as process:
        await eventually(process.children)
        (child,) = process.children()
        await (await armed_strike(stage, strike("kill", "a-engine", alone=True)))()
        await eventually(lambda: process.status() == psutil.STATUS_ZOMBIE)
        assert child.is_running()
        child.kill()


async def test_power_when_it_fails_then_all_of_the_machine_dies_and_its_supervisor_goes_on(
    stage: Any,
) -> None:
    for site in ("a", "b"):
        stage.home.create_site(site)
    with (
        running(stage, "a-nats") as server,
        running(stage, "a-engine", WITH_CHILD) as engine,
        running(stage, "a-guard") as guard,
        running(stage, "b-agent") as other,
        running(stage, "coordinator") as coordinator,
        running(stage, "local") as supervisor,
    ):
        (child,) = await eventually(engine.children)
        await (await armed_strike(stage, strike("power", "a")))()
        assert all(is_gone(process) for process in (server, engine, child))
        assert not any(is_gone(process) for process in (guard, other, coordinator, supervisor))
        assert not is_paused(supervisor)
        await (await armed_strike(stage, strike("power", "hub")))()
        assert is_gone(coordinator)
        assert not is_gone(other)


async def test_power_when_the_disks_are_lost_then_a_site_has_its_servers_configuration_alone(
    stage: Any,
) -> None:
    home = stage.home.create_site("a")
    (home.nats("a") / "nats.conf").touch()
    for stored in (home.nats("a") / "jetstream", home.jobs("a") / "counts"):
        stored.mkdir()
        (stored / "state").touch()
    await (await armed_strike(stage, strike("power", "a")))()
    assert (home.jobs("a") / "counts" / "state").exists()
    await (await armed_strike(stage, strike("power", "a", lose_disks=True)))()
    assert [path.name for path in home.site("a").rglob("*") if path.is_file()] == ["nats.conf"]


async def test_strike_when_its_process_starts_after_it_was_prepared_then_hits_it(stage: Any) -> None:
    armed = await armed_strike(stage, strike("kill", "b-engine"))
    with running(stage, "b-engine") as process:
        await armed()
        await eventually(lambda: process.status() == psutil.STATUS_ZOMBIE)


async def test_strike_when_its_process_starts_after_the_moment_then_waits_and_hits_it(stage: Any) -> None:
    armed = await armed_strike(stage, strike("kill", "b-engine"))
    async with under_way(armed()) as striking:
        await asyncio.sleep(0)
        with running(stage, "b-engine") as process:
            await striking
            await eventually(lambda: process.status() == psutil.STATUS_ZOMBIE)


async def test_strike_when_its_process_does_not_start_then_is_refused(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strikes, "STARTS_WITHIN_S", 0.1)
    armed = await armed_strike(stage, strike("kill", "b-agent"))
    with pytest.raises(TowpathError) as refused:
        await armed()
    assert (refused.value.detail.code, refused.value.detail.value) == (ErrorCode.FAILED, "b-agent")


async def test_pause_when_over_then_process_runs_again(stage: Any) -> None:
    with running(stage, "coordinator") as process:
        armed = await armed_strike(stage, strike("pause", "coordinator", for_s=SEEN_S))
        async with under_way(armed()) as striking:
            await eventually(lambda: process.status() == psutil.STATUS_STOPPED)
            await striking
        assert process.status() != psutil.STATUS_STOPPED


async def test_pause_when_the_run_is_interrupted_then_process_runs_again(stage: Any) -> None:
    with running(stage, "coordinator") as process:
        armed = await armed_strike(stage, strike("pause", "coordinator", for_s=60))
        async with under_way(armed()):
            await eventually(lambda: process.status() == psutil.STATUS_STOPPED)
        await eventually(lambda: process.status() != psutil.STATUS_STOPPED)


async def test_pause_when_victim_is_an_engine_then_its_children_stop_too(stage: Any) -> None:
    with running(stage, "a-engine", WITH_CHILD) as process:
        await eventually(process.children)
        (child,) = process.children()
        armed = await armed_strike(stage, strike("pause", "a-engine", for_s=SEEN_S))
        async with under_way(armed()) as striking:
            await eventually(lambda: child.status() == psutil.STATUS_STOPPED)
            await striking
        await eventually(lambda: child.status() != psutil.STATUS_STOPPED)
        child.kill()


async def test_disk_full_when_it_lasts_then_writes_are_refused_and_afterwards_not(stage: Any) -> None:
    target = stage.home.root / "a-agent.txt"
    with running(stage, "a-agent"):
        await eventually(target.exists)
        assert not target.with_suffix(".refused").exists()
        armed = await armed_strike(stage, strike("disk_full", "a-agent", for_s=SEEN_S))
        async with under_way(armed()) as striking:
            await eventually(target.with_suffix(".refused").exists)
            await striking
        target.unlink()
        await eventually(lambda: target.exists() and target.read_text() == "x")


async def test_cut_when_struck_then_the_link_restores_itself(stage: Any) -> None:
    cut = Strike(target=TargetKind.LINK, name="a", fault="cut", for_s=0.01)
    await (await armed_strike(stage, cut))()
    (command,) = stage.bus.commands
    assert isinstance(command, ShapeLink)
    assert (command.site, command.conditions.cut, command.conditions.for_s) == ("a", True, 0.01)


async def test_command_when_delivered_twice_then_is_sent_again_as_it_was(stage: Any) -> None:
    command = caught(Meddling.DELIVER_TWICE)
    async with under_way(deliver_twice(stage, command)) as delivering:
        await command.on_command(Command())  # type: ignore[arg-type]
        await delivering
    assert stage.prompter.connection.published == [(Command.subject, Command.data)]


async def test_reply_when_lost_then_coordinator_dies_without_having_run(stage: Any) -> None:
    command = caught(Meddling.LOSE_REPLY)
    with running(stage, "coordinator") as process:
        async with under_way(lose_reply(process, command)) as losing:
            await command.on_command(Command())  # type: ignore[arg-type]
            await eventually(lambda: process.status() == psutil.STATUS_STOPPED)
            reply = Command()
            reply.subject = Command.reply
            await command.on_reply(reply)  # type: ignore[arg-type]
            await losing
        await eventually(lambda: process.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.parametrize(
    "other", [b'{"id":"0123456789ab-resume-undo","job":"j"}', b'{"id":"0123456789ab-resume","job":"k"}']
)
async def test_command_when_of_a_compensation_or_another_job_then_is_not_caught(other: bytes) -> None:
    command = CaughtCommand(Interception(job="j", step="resume", do=Meddling.DELIVER_TWICE, within_s=0.01))
    sent = Command()
    sent.data = other
    await command.on_command(sent)  # type: ignore[arg-type]
    with pytest.raises(TimeoutError):
        await command.command()
