"""A guard holds a fault as long as a rule asks for it, and then releases it."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from running.guard_trial import (
    SCOPE,
    WITH_CHILD,
    WRITER,
    counts,
    is_gone,
    is_paused,
    loaded,
    new_home,
    running,
    tell,
)
from running.waiting import until
from towpath.lab.faults import rule_set_file
from towpath.lab.guard.guard import Guard
from towpath.lab.guard.process import held_path
from towpath.mesh.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path)


def test_process_is_paused_when_a_rule_says_so_and_goes_on_when_it_is_gone(home: Home) -> None:
    guard = Guard(home, SCOPE)
    with running(home, "jfk-nats") as process, running(home, "jfk-agent") as other:
        tell(home, loaded("pause", "process", "jfk-nats"))
        assert guard.look()
        until(lambda: is_paused(process))
        assert not is_paused(other)
        tell(home)
        assert not guard.look()
        assert not is_paused(process)


def test_process_goes_on_when_the_lease_is_over(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Guard(home, SCOPE)
    with running(home, "jfk-agent") as process:
        tell(home, loaded("pause", "process", "jfk-agent"), lease_s=60)
        guard.look()
        until(lambda: is_paused(process))
        over = time.time() + 100
        monkeypatch.setattr(rule_set_file, "real_time", lambda: over)
        assert not guard.look()
        assert not is_paused(process)


def test_process_goes_on_when_the_file_of_rules_is_gone_or_broken(home: Home) -> None:
    with running(home, "jfk-agent") as process:
        for spoil in (Path.unlink, lambda path: path.write_text("{")):
            guard = Guard(home, SCOPE)
            tell(home, loaded("pause", "process", "jfk-agent"))
            guard.look()
            until(lambda: is_paused(process))
            spoil(home.fault_rules(SCOPE))
            assert not guard.look()
            assert not is_paused(process)


def test_process_is_paused_only_while_the_condition_holds(home: Home) -> None:
    guard = Guard(home, SCOPE)
    rule = loaded("pause", "process", "jfk-nats", "cpu_percent(site) > 80")
    with running(home, "jfk-nats") as process:
        for percent, paused in ((None, False), (81.0, True), (79.0, False)):
            tell(home, rule, shared={} if percent is None else {"cpu_percent(jfk)": percent})
            guard.look()
            if paused:
                until(lambda: is_paused(process))
            assert is_paused(process) is paused


def test_whole_family_is_paused_when_it_is_an_engine_and_only_the_process_otherwise(home: Home) -> None:
    guard = Guard(home, SCOPE)
    tell(home, loaded("pause", "process", "jfk-engine"), loaded("pause", "process", "jfk-agent"))
    with running(home, "jfk-engine", WITH_CHILD) as engine, running(home, "jfk-agent", WITH_CHILD) as agent:
        until(lambda: engine.children() and agent.children())
        guard.look()
        until(lambda: all(is_paused(each) for each in (engine, *engine.children(), agent)))
        assert not is_paused(*agent.children())
        guard.release_all()
        assert not any(is_paused(each) for each in (engine, *engine.children(), agent))


def test_process_that_came_later_is_paused_when_the_rule_still_holds(home: Home) -> None:
    guard = Guard(home, SCOPE)
    tell(home, loaded("pause", "process", "jfk-nats"))
    assert guard.look()
    with running(home, "jfk-nats") as first:
        guard.look()
        until(lambda: is_paused(first))
    with running(home, "jfk-nats") as second:
        guard.look()
        until(lambda: is_paused(second))


def test_everything_is_released_when_the_guard_died_and_the_rules_are_gone(home: Home) -> None:
    with running(home, "jfk-nats", WRITER) as process, running(home, "jfk-agent") as agent:
        target = home.root / "jfk-nats.txt"
        refused = target.with_suffix(".refused")
        tell(home, loaded("pause", "process", "jfk-agent"), loaded("disk_full", "disk", "jfk-nats"))
        Guard(home, SCOPE).look()
        until(refused.exists)
        until(lambda: is_paused(agent))
        tell(home)
        next_guard = Guard(home, SCOPE)
        assert not next_guard.look()
        assert not is_paused(agent)
        assert process.rlimit(psutil.RLIMIT_FSIZE)[0] == process.rlimit(psutil.RLIMIT_FSIZE)[1]
        assert not held_path(home, SCOPE).exists()


def test_supervisor_goes_on_when_the_guard_died_while_it_cut_the_power(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(process: psutil.Process) -> None:
        raise KeyboardInterrupt

    tell(home, loaded("power", "machine", SCOPE, once=True))
    with running(home, "local") as supervisor, running(home, "jfk-nats") as server:
        with monkeypatch.context() as patched:
            patched.setattr(psutil.Process, "resume", die)
            with pytest.raises(KeyboardInterrupt):
                Guard(home, SCOPE).look()
        assert is_gone(server)
        assert is_paused(supervisor)
        Guard(home, SCOPE).look()
        Guard(home, SCOPE).look()
        assert not is_paused(supervisor)
        assert not held_path(home, SCOPE).exists()


def test_family_goes_on_when_its_head_died_while_it_was_paused_and_the_guard_too(home: Home) -> None:
    tell(home, loaded("pause", "process", "jfk-engine"))
    with running(home, "jfk-engine", WITH_CHILD) as engine:
        until(engine.children)
        [child] = engine.children()
        Guard(home, SCOPE).look()
        engine.kill()
        until(lambda: is_gone(engine))
        until(lambda: is_paused(child))
        tell(home)
        Guard(home, SCOPE).look()
        assert not is_paused(child)
        child.kill()


def test_process_stays_paused_when_one_of_two_rules_that_pause_it_is_gone(home: Home) -> None:
    guard = Guard(home, SCOPE)
    first = loaded("pause", "process", "jfk-nats")
    second = first.model_copy(update={"rule": first.rule.model_copy(update={"name": "second"})})
    with running(home, "jfk-nats") as process:
        tell(home, first, second)
        guard.look()
        tell(home, second)
        guard.look()
        until(lambda: is_paused(process))
        tell(home)
        guard.look()
        assert not is_paused(process)


def test_writes_fail_when_the_disk_is_full_and_work_again_afterwards(home: Home) -> None:
    guard = Guard(home, SCOPE)
    target = home.root / "jfk-nats.txt"
    with running(home, "jfk-nats", WRITER):
        until(target.exists)
        assert not target.with_suffix(".refused").exists()
        tell(home, loaded("disk_full", "disk", "jfk-nats"))
        guard.look()
        until(target.with_suffix(".refused").exists)
        tell(home)
        guard.look()
        target.unlink()
        until(lambda: target.exists() and target.read_text() == "x")


def test_child_may_write_again_when_it_was_started_while_its_parent_had_a_full_disk(home: Home) -> None:
    guard = Guard(home, SCOPE)
    go = home.root / "go"
    starts_later = f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)\n"
    with running(home, "jfk-agent", starts_later + WITH_CHILD) as agent:
        tell(home, loaded("disk_full", "disk", "jfk-agent"))
        guard.look()
        go.touch()
        until(agent.children)
        [child] = agent.children()
        assert child.rlimit(psutil.RLIMIT_FSIZE)[0] == 0
        tell(home)
        guard.look()
        assert child.rlimit(psutil.RLIMIT_FSIZE)[0] != 0


def test_record_names_what_is_held_when_it_is_and_is_gone_afterwards(home: Home) -> None:
    guard = Guard(home, SCOPE)
    with running(home, "jfk-nats") as process:
        tell(home, loaded("pause", "process", "jfk-nats"))
        guard.look()
        assert f'"pid":{process.pid}' in held_path(home, SCOPE).read_text()
        guard.release_all()
        assert not held_path(home, SCOPE).exists()


def test_nothing_is_held_when_the_record_cannot_be_written(home: Home) -> None:
    guard = Guard(home, SCOPE)
    held_path(home, SCOPE).mkdir()  # In the way of the file.
    with running(home, "jfk-nats") as process:
        tell(home, loaded("pause", "process", "jfk-nats"))
        for _ in range(2):
            guard.look()
        assert not is_paused(process)
        guard.release_all()
        assert counts(home) == {"pause-jfk-nats": (2, 2, 2)}


def test_other_rules_are_carried_out_when_one_cannot_be(home: Home) -> None:
    guard = Guard(home, SCOPE)
    bad = [
        loaded("pause", "process", "jfk-guard"),
        loaded("no_such_fault", "process", "jfk-nats"),
        loaded("memory_load", "machine", SCOPE, megabytes=900_000_000 // 1000),
        loaded("kill", "process", "jfk-nats", "nonsense ("),
    ]
    with running(home, "jfk-nats") as process:
        tell(home, *bad, loaded("pause", "process", "jfk-nats"))
        guard.look()
        until(lambda: is_paused(process))
        tell(home)
        guard.release_all()
        assert not is_paused(process)
    failed = {rule: errors for rule, (_, _, errors) in counts(home).items() if errors}
    assert failed == {each.rule.name: 1 for each in bad}


def test_rule_is_left_to_others_when_it_is_for_another_site(home: Home) -> None:
    guard = Guard(home, SCOPE)
    rule = loaded("pause", "process", "jfk-nats")
    elsewhere = rule.rule.model_copy(update={"where": rule.rule.where.model_copy(update={"site": "lga"})})
    with running(home, "jfk-nats") as process:
        tell(home, rule.model_copy(update={"rule": elsewhere}))
        assert not guard.look()
        assert not is_paused(process)


def test_guard_says_that_it_is_idle_when_there_is_nothing_to_do(home: Home) -> None:
    guard = Guard(home, SCOPE)
    assert not guard.look()
    tell(home, loaded("cut", "link", SCOPE), loaded("clock_skew", "clock", "jfk-agent", seconds=3))
    assert not guard.look()
