"""The guard as a process: one per scope, started by a keeper. No fault stays when processes are killed."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import psutil
import pytest

from running.guard_trial import (
    SCOPE,
    counts,
    is_gone,
    is_paused,
    keeping,
    loaded,
    new_home,
    running,
    tell,
    tell_keeper,
)
from running.waiting import WITHIN_S, eventually, until
from towpath.contracts.errors import TowpathError
from towpath.contracts.fault_commands import LONGEST_LEASE_S
from towpath.contracts.faults import RuleCount
from towpath.contracts.metrics import Metric
from towpath.lab.guard.process import guard_name, guard_spec, held_path, progress_path
from towpath.mesh.home import Home
from towpath.processes import find, launch, stop

LONG_S = LONGEST_LEASE_S
"""A lease that is not over while a test waits."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path)


async def nowhere(metric: Metric) -> None:
    """Drop the metric."""


def guard_of(home: Home) -> psutil.Process | None:
    record = find(home.run, guard_name(SCOPE))
    return record.process if record is not None else None


async def test_guard_runs_only_while_rules_need_it(home: Home) -> None:
    async with keeping(home, nowhere) as keeper:
        await tell_keeper(keeper, 1, LONG_S, [loaded("cut", "link", SCOPE)], {})
        with pytest.raises(AssertionError, match="did not come about"):
            await eventually(lambda: guard_of(home), within_s=1)
        with running(home, "jfk-nats") as process:
            await tell_keeper(keeper, 2, LONG_S, [loaded("pause", "process", "jfk-nats")], {})
            await eventually(lambda: is_paused(process))
            await tell_keeper(keeper, 3, LONG_S, [], {})
            await eventually(lambda: not is_paused(process))
            await eventually(lambda: guard_of(home) is None)
            assert not (home.run / f"{guard_name(SCOPE)}.json").exists()


async def test_counts_come_with_the_answer_when_the_guard_has_reported(home: Home) -> None:
    rule = loaded("pause", "process", "jfk-nats")
    async with keeping(home, nowhere) as keeper:
        with running(home, "jfk-nats"):

            async def counted() -> list[RuleCount]:
                return (await tell_keeper(keeper, 1, LONG_S, [rule], {})).counts

            [count] = await eventually(counted)
            assert (count.rule, count.version) == ("pause-jfk-nats", 1)
            assert count.acted == count.looked > 0


async def test_paused_process_goes_on_when_the_keeper_is_not_heard_of_any_more(home: Home) -> None:
    with running(home, "jfk-agent") as process:
        async with keeping(home, nowhere) as keeper:
            rule = loaded("pause", "process", "jfk-agent")

            async def renewed_until_paused() -> bool:
                await tell_keeper(keeper, 1, 1.5, [rule], {})
                return is_paused(process)

            await eventually(renewed_until_paused)
            await eventually(lambda: not is_paused(process))


async def test_guard_is_started_again_when_it_is_killed_and_nothing_is_struck_twice(home: Home) -> None:
    rules = [loaded("kill", "process", "jfk-nats", once=True), loaded("pause", "process", "jfk-agent")]
    with running(home, "jfk-agent") as agent:
        async with keeping(home, nowhere) as keeper:
            with running(home, "jfk-nats") as struck:
                await tell_keeper(keeper, 1, LONG_S, rules, {})
                await eventually(lambda: is_gone(struck) and is_paused(agent))
            first = guard_of(home)
            assert first is not None
            with running(home, "jfk-nats") as spared:
                first.kill()
                await eventually(lambda: guard_of(home) not in (None, first))
                looked = counts(home)["kill-jfk-nats"][0]
                await eventually(lambda: counts(home)["kill-jfk-nats"][0] > looked)
                assert not is_gone(spared)
                assert is_paused(agent)
                await tell_keeper(keeper, 2, LONG_S, [], {})
                await eventually(lambda: not is_paused(agent))


def test_everything_is_released_when_the_guard_is_killed_and_no_one_else_is_there(home: Home) -> None:
    """This happens when the guard has paused the agent, whose keeper would restart the guard."""
    rules = [
        loaded("pause", "process", "jfk-agent"),
        loaded("disk_full", "disk", "jfk-nats"),
        loaded("cpu_load", "machine", SCOPE, cores=1, percent=1),
    ]
    with running(home, "jfk-agent") as agent, running(home, "jfk-nats") as nats:
        tell(home, *rules, lease_s=5)
        guard = launch(guard_spec(home, SCOPE), home.run)
        try:
            until(lambda: is_paused(agent) and nats.rlimit(psutil.RLIMIT_FSIZE)[0] == 0)
            until(lambda: any("cpu.py" in word for word in commands(guard.pid)))
            guard.kill()
            guard.wait()
            until(lambda: not is_paused(agent) and nats.rlimit(psutil.RLIMIT_FSIZE)[0] != 0)
            until(lambda: guard_of(home) is None)
            assert not held_path(home, SCOPE).exists()
            assert not any("cpu.py" in word for process in psutil.process_iter() for word in words(process))
        finally:
            stop(home.run, guard_name(SCOPE), grace_s=2)


def commands(pid: int) -> list[str]:
    """Return the command lines of a process' children."""
    return [word for child in psutil.Process(pid).children() for word in words(child)]


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def launched(home: Home) -> subprocess.Popen[bytes]:
    """Start a new guard. A killed one may have a successor, which must end first."""
    started: list[subprocess.Popen[bytes]] = []

    def is_free() -> bool:
        with contextlib.suppress(TowpathError):
            started.append(launch(guard_spec(home, SCOPE), home.run))
        return bool(started)

    until(is_free)
    return started[0]


def test_nothing_stays_held_when_the_guard_is_killed_at_any_moment(home: Home) -> None:
    with running(home, "jfk-agent") as agent:
        for moment in range(6):
            tell(home, loaded("pause", "process", "jfk-agent"), lease_s=3)
            guard = launched(home)
            with contextlib.suppress(psutil.TimeoutExpired):
                psutil.Process(guard.pid).wait(0.35 + moment * 0.1)
            guard.kill()
            guard.wait()
            tell(home)
            until(lambda: not is_paused(agent) and not held_path(home, SCOPE).exists())
            until(lambda: guard_of(home) is None)


def test_supervisor_goes_on_when_the_guard_is_killed_at_any_moment_of_a_power_cut(home: Home) -> None:
    begun = progress_path(home, SCOPE)
    with running(home, "local") as supervisor:
        for moment in range(6):
            with running(home, "jfk-nats"):
                begun.unlink(missing_ok=True)
                tell(home, loaded("power", "machine", SCOPE, version=moment + 1, once=True), lease_s=3)
                guard = launched(home)
                until(begun.exists)
                with contextlib.suppress(psutil.TimeoutExpired):
                    psutil.Process(guard.pid).wait(moment * 0.01)
                guard.kill()
                guard.wait()
                tell(home)
                until(lambda: not is_paused(supervisor) and not held_path(home, SCOPE).exists())
                until(lambda: guard_of(home) is None)


def test_everything_is_released_when_the_guard_is_asked_to_end(home: Home) -> None:
    with running(home, "jfk-agent") as agent:
        tell(home, loaded("pause", "process", "jfk-agent"))
        guard = launch(guard_spec(home, SCOPE), home.run)
        until(lambda: is_paused(agent))
        guard.terminate()
        assert guard.wait(WITHIN_S) == 0
        assert not is_paused(agent)
        assert guard_of(home) is None
        assert not held_path(home, SCOPE).exists()


async def test_rules_and_guard_end_when_the_keeper_is_closed(home: Home) -> None:
    with running(home, "jfk-agent") as agent:
        async with keeping(home, nowhere) as keeper:
            await tell_keeper(keeper, 1, LONG_S, [loaded("pause", "process", "jfk-agent")], {})
            await eventually(lambda: is_paused(agent))
        assert not is_paused(agent)
        assert guard_of(home) is None
        assert not home.fault_rules(SCOPE).exists()


async def test_next_keeper_finishes_what_a_killed_guard_left(home: Home) -> None:
    with running(home, "jfk-agent") as agent:
        tell(home, loaded("pause", "process", "jfk-agent"))
        guard = launch(guard_spec(home, SCOPE), home.run)
        until(lambda: is_paused(agent))
        watchers = psutil.Process(guard.pid).children()
        for each in (*watchers, psutil.Process(guard.pid)):
            each.kill()
        guard.wait()
        home.fault_rules(SCOPE).unlink()
        assert is_paused(agent)
        async with keeping(home, nowhere):
            await eventually(lambda: not is_paused(agent))
