"""The supervisor: order, readiness, restarts, and its own death."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from running.waiting import WITHIN_S, eventually
from towpath.contracts.errors import TowpathError
from towpath.processes import Backoff, ChildSpec, PidRecord, Supervisor, find, listed, stop

QUICK = Backoff(first_s=0.01, longest_s=0.05, healthy_s=30)
DIARY = """
import signal, sys, time
def note(word):
    with open({diary!r}, "a") as diary:
        diary.write(word + " {name}\\n")
signal.signal(signal.SIGTERM, lambda *_: (note("ends"), sys.exit(0)))
note("begins")
time.sleep({life})
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    for record in listed(tmp_path / "run"):
        stop(tmp_path / "run", record.name, grace_s=0)


def child(tmp_path: Path, name: str, *, life: float = 60, **options) -> ChildSpec:
    """Return a process that writes into the diary when it begins and when it is asked to end."""
    script = DIARY.format(diary=str(tmp_path / "diary"), name=name, life=life)
    return ChildSpec(name, (sys.executable, "-c", script), tmp_path / f"{name}.log", **options)


def diary(tmp_path: Path) -> list[str]:
    path = tmp_path / "diary"
    return path.read_text().splitlines() if path.exists() else []


def running(run: Path, name: str) -> PidRecord:
    record = find(run, name)
    assert record is not None
    return record


async def test_children_start_and_end_in_order_when_they_need_each_other(run: Path, tmp_path: Path) -> None:
    async def began(name: str) -> bool:
        return f"begins {name}" in diary(tmp_path)

    specs = [
        child(tmp_path, "agent", after=("coordinator",), ready=lambda: began("agent")),
        child(tmp_path, "coordinator", after=("hub",), ready=lambda: began("coordinator")),
        child(tmp_path, "hub", ready=lambda: began("hub")),
    ]
    async with Supervisor(specs, run) as supervisor:
        await supervisor.wait_ready(WITHIN_S)
    assert diary(tmp_path) == [
        "begins hub",
        "begins coordinator",
        "begins agent",
        "ends agent",
        "ends coordinator",
        "ends hub",
    ]
    assert listed(run) == []


async def test_child_is_started_again_when_it_is_killed(run: Path, tmp_path: Path) -> None:
    async with Supervisor([child(tmp_path, "worker")], run, backoff=QUICK) as supervisor:
        await supervisor.wait_ready(WITHIN_S)
        first = running(run, "worker").pid
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: (record := find(run, "worker")) and record.pid != first)
        await supervisor.wait_ready(WITHIN_S)
        [status] = await supervisor.status()
        assert (status.running, status.restarts, status.pid) == (True, 1, running(run, "worker").pid)
        assert running(run, "worker").restarts == 1


@dataclass(frozen=True)
class Noted(Backoff):
    """Short pauses, and a note of each number of failures that it is given."""

    failures: list[int] = field(default_factory=list)

    def pause_s(self, failures: int) -> float:
        self.failures.append(failures)
        return 0.01


@pytest.mark.parametrize(("healthy_s", "counted"), [(600, [0, 1, 2]), (0, [0, 0, 0])])
async def test_failures_count_up_unless_the_run_was_healthy_when_a_child_ends(
    run: Path, tmp_path: Path, healthy_s: float, counted: list[int]
) -> None:
    backoff = Noted(healthy_s=healthy_s)
    async with Supervisor([child(tmp_path, "worker", life=0)], run, backoff=backoff):
        await eventually(lambda: len(backoff.failures) >= 3)
    assert backoff.failures[:3] == counted
    assert diary(tmp_path)[:3] == ["begins worker"] * 3


def test_pause_doubles_up_to_the_longest_when_failures_follow_each_other() -> None:
    pauses = [Backoff().pause_s(failures) for failures in range(8)]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


async def test_child_is_started_again_when_it_does_not_become_ready(run: Path, tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    spec = child(tmp_path, "worker", ready=never, ready_s=0.3)
    async with Supervisor([spec], run, backoff=QUICK) as supervisor:
        await eventually(lambda: diary(tmp_path).count("begins worker") >= 2)
        assert not supervisor.is_ready("worker")


ENDS_WITH_THE_OTHERS = """
import pathlib, signal, sys, time
told, others = pathlib.Path(sys.argv[1]), int(sys.argv[2])
def end(*_):
    told.touch()
    while len(list(told.parent.iterdir())) < others:
        time.sleep(0.01)
    print("ends", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, end)
print("here", flush=True)
time.sleep(600)
"""
SUPERVISING = """
import asyncio, json, sys
from pathlib import Path
from towpath.processes import ChildSpec, Supervisor

async def main():
    specs = [ChildSpec(n, tuple(c), Path(l)) for n, c, l in json.loads(sys.argv[1])]
    async with Supervisor(specs, Path(sys.argv[2])):
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_survivors_are_adopted_when_the_supervisor_was_killed(run: Path, tmp_path: Path) -> None:
    specs = [child(tmp_path, "hub"), child(tmp_path, "agent")]
    told = json.dumps([(s.name, s.command, str(s.log)) for s in specs])
    command = [sys.executable, "-c", SUPERVISING, told, str(run)]
    first = await asyncio.create_subprocess_exec(*command)
    try:
        await eventually(lambda: len(diary(tmp_path)) == 2)
        before = {name: running(run, name).pid for name in ("hub", "agent")}
    finally:
        first.kill()
        await first.wait()
    os.kill(before["agent"], signal.SIGKILL)
    async with Supervisor(specs, run, backoff=QUICK) as second:
        await second.wait_ready(WITHIN_S)
        # The supervisor may have adopted it in its last moment; then it restarts it.
        await eventually(lambda: (record := find(run, "agent")) and record.pid != before["agent"])
        assert running(run, "hub").pid == before["hub"]
        os.kill(before["hub"], signal.SIGKILL)
        await eventually(lambda: (record := find(run, "hub")) and record.pid != before["hub"])
    assert listed(run) == []


async def test_running_child_is_replaced_when_its_configuration_changed(run: Path, tmp_path: Path) -> None:
    old, stays = child(tmp_path, "hub", version="1"), child(tmp_path, "stays")
    async with Supervisor([old, stays], run, backoff=QUICK) as supervisor:
        await supervisor.wait_ready(WITHIN_S)
        await eventually(lambda: len(diary(tmp_path)) == 2)
        kept = running(run, "stays").pid
        await supervisor.apply([child(tmp_path, "hub", version="2"), stays, child(tmp_path, "new")])
        await supervisor.wait_ready(WITHIN_S)
        await eventually(lambda: {"ends hub", "begins new"} <= set(diary(tmp_path)))
        assert running(run, "hub").version == "2"
        assert running(run, "stays").pid == kept
        await supervisor.apply([stays])
        assert find(run, "hub") is None
        assert find(run, "new") is None
        assert running(run, "stays").pid == kept


async def test_child_runs_again_when_its_restart_is_asked_for(run: Path, tmp_path: Path) -> None:
    async with Supervisor([child(tmp_path, "engine")], run, backoff=QUICK) as supervisor:
        await supervisor.wait_ready(WITHIN_S)
        first = running(run, "engine").pid
        await supervisor.restart("engine")
        await eventually(lambda: (record := find(run, "engine")) and record.pid != first)


async def test_many_children_are_told_to_end_together_when_each_waits_for_the_others(
    run: Path, tmp_path: Path
) -> None:
    (tmp_path / "told").mkdir()
    specs = []
    for n in range(8):
        command = (sys.executable, "-c", ENDS_WITH_THE_OTHERS, str(tmp_path / "told" / str(n)), "8")
        specs.append(ChildSpec(f"agent-{n}", command, tmp_path / f"{n}.log", stop_s=WITHIN_S))
    supervisor = Supervisor(specs, run)
    supervisor.start()
    await supervisor.wait_ready(WITHIN_S)
    await eventually(lambda: all(spec.log.read_text() for spec in specs))

    await supervisor.stop()

    # If children were asked one after the other, the last would be killed before they could note their end.
    assert [spec.log.read_text() for spec in specs] == ["here\nends\n"] * 8
    assert listed(run) == []


@pytest.mark.parametrize("needs", [("b",), ("missing",)])
def test_list_is_refused_when_its_order_cannot_be(run: Path, tmp_path: Path, needs: tuple[str, ...]) -> None:
    specs = [child(tmp_path, "a", after=needs), child(tmp_path, "b", after=("a",))]
    with pytest.raises(TowpathError) as refused:
        Supervisor(specs, run)
    assert refused.value.detail.field == "after"
    assert refused.value.detail.allowed == ["a", "b"]


async def test_child_is_starting_until_it_answers_for_the_first_time_and_never_when_it_was_adopted(
    run: Path, tmp_path: Path
) -> None:
    answering = asyncio.Event()

    async def answers() -> bool:
        return answering.is_set()

    spec = child(tmp_path, "engine", ready=answers)
    first = Supervisor([spec], run)
    first.start()
    await eventually(lambda: first.is_starting("engine"))
    answering.set()
    await first.wait_ready(WITHIN_S)
    assert not first.is_starting("engine")
    await first._release(list(first._kept.values()))  # As if it had been killed: its child lives on.
    answering.clear()
    async with Supervisor([spec], run) as second:
        await asyncio.to_thread(running, run, "engine")
        assert not second.is_starting("engine")
        answering.set()
        await second.wait_ready(WITHIN_S)
        assert not second.is_starting("engine")
