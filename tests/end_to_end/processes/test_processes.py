"""A process that outlives its starter: it is found again, started once, and ended with all its children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil
import pytest

from running.waiting import WITHIN_S, until
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.processes import ChildSpec, find, launch, listed, rotate_log, stop
from towpath.processes import child as children
from towpath.processes.child import status
from towpath.processes.claim import AUTOGROUP

SLEEPER = "import time; print('here', flush=True); time.sleep(60)"
PARENT = """
import subprocess, sys, time
command = [sys.executable, "-c", "import time; time.sleep(60)"]
child = subprocess.Popen(command, start_new_session={own_session})
print(child.pid, flush=True)
time.sleep({life})
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here", flush=True)
time.sleep(60)
"""
HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("here", flush=True)
ctypes.CDLL(None).syscall(60, 0)  # `exit` of this thread alone.
"""
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("here", flush=True)
time.sleep(60)
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    for record in listed(tmp_path / "run"):
        stop(tmp_path / "run", record.name, grace_s=0)


def child(tmp_path: Path, script: str, name: str = "worker", **options) -> ChildSpec:
    return ChildSpec(name, (sys.executable, "-c", script), tmp_path / f"{name}.log", **options)


def output_of(spec: ChildSpec) -> str:
    return until(spec.log.read_text)


def test_pid_file_names_the_process_when_launch_returns(run: Path, tmp_path: Path) -> None:
    spec = child(tmp_path, SLEEPER, version="7")
    started = launch(spec, run, restarts=3)
    record = find(run, "worker")
    assert record is not None
    assert (record.pid, record.name, record.command) == (started.pid, "worker", spec.command)
    assert (record.version, record.restarts) == ("7", 3)
    assert abs(record.create_time - psutil.Process(started.pid).create_time()) < 1.5
    until(lambda: psutil.Process(started.pid).cmdline()[1:] == ["-c", SLEEPER])
    assert os.getsid(started.pid) == started.pid
    until(lambda: status(record).memory_mb > 1)


def test_environment_reaches_the_process_when_given(run: Path, tmp_path: Path) -> None:
    spec = child(
        tmp_path,
        "import os; print(os.environ['TOWPATH_TEST'], 'PATH' in os.environ)",
        environment={"TOWPATH_TEST": "given"},
    )
    launch(spec, run)
    assert output_of(spec) == "given True\n"


NICE_FAMILY = """
import os, subprocess, sys
nice = [sys.executable, "-c", "import os; print(os.nice(0))"]
print(os.nice(0), subprocess.check_output(nice, text=True).strip(), flush=True)
"""


def test_process_and_its_children_let_others_go_first_when_it_is_nice(run: Path, tmp_path: Path) -> None:
    own = os.nice(0)
    spec = child(tmp_path, NICE_FAMILY, niceness=3)
    launch(spec, run)
    assert output_of(spec) == f"{own + 3} {own + 3}\n"


def test_session_lets_others_go_first_when_the_kernel_shares_processors_between_sessions(
    run: Path, tmp_path: Path
) -> None:
    if not AUTOGROUP.exists():
        pytest.skip("this kernel has no groups of sessions")
    started = launch(child(tmp_path, SLEEPER, niceness=3), run)
    group = Path(f"/proc/{started.pid}/autogroup")
    until(lambda: group.read_text().endswith(f"nice {os.nice(0) + 3}\n"))


def test_launch_is_refused_when_the_name_is_taken(run: Path, tmp_path: Path) -> None:
    first = launch(child(tmp_path, SLEEPER), run)
    with pytest.raises(TowpathError) as refused:
        launch(child(tmp_path, SLEEPER), run)
    assert refused.value.detail.code is ErrorCode.BUSY
    record = find(run, "worker")
    assert record is not None
    assert record.pid == first.pid


def test_launch_is_refused_when_the_name_is_taken_and_the_pid_file_is_lost(run: Path, tmp_path: Path) -> None:
    first = launch(child(tmp_path, SLEEPER), run)
    (run / "worker.json").unlink()
    with pytest.raises(TowpathError, match="runs already"):
        launch(child(tmp_path, SLEEPER), run)
    first.kill()
    first.wait()
    launch(child(tmp_path, SLEEPER), run)


def test_log_says_why_when_the_command_does_not_exist(run: Path, tmp_path: Path) -> None:
    spec = ChildSpec("worker", (str(tmp_path / "nothing"),), tmp_path / "worker.log")
    started = launch(spec, run)
    assert started.wait(WITHIN_S) != 0
    assert "cannot run" in output_of(spec)
    assert find(run, "worker") is None


def test_find_gives_nothing_when_the_pid_belongs_to_another_process_now(run: Path, tmp_path: Path) -> None:
    launch(child(tmp_path, SLEEPER), run)
    path = run / "worker.json"
    earlier = json.loads(path.read_text())
    bystander = subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        stop(run, "worker", grace_s=0)
        path.write_text(
            json.dumps(earlier | {"pid": bystander.pid, "create_time": earlier["create_time"] - 100})
        )
        assert find(run, "worker") is None
        assert not stop(run, "worker", grace_s=0)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_stop_leaves_a_session_alone_when_its_number_was_ours_before_the_machine_started_again(
    run: Path, tmp_path: Path
) -> None:
    launch(child(tmp_path, SLEEPER), run)
    path = run / "worker.json"
    earlier = json.loads(path.read_text())
    stop(run, "worker", grace_s=0)
    bystander = child(tmp_path, PARENT.format(own_session=False, life=0), "bystander")
    started = launch(bystander, run)
    started.wait(WITHIN_S)
    left = int(output_of(bystander))
    path.write_text(json.dumps(earlier | {"pid": started.pid, "boot": "an earlier one"}))
    assert not stop(run, "worker", grace_s=0)
    assert psutil.pid_exists(left)


def test_find_gives_nothing_when_the_machine_has_started_again(run: Path, tmp_path: Path) -> None:
    launch(child(tmp_path, SLEEPER), run)
    path = run / "worker.json"
    path.with_name("earlier.json").write_text(
        json.dumps(json.loads(path.read_text()) | {"boot": "an earlier one", "name": "earlier"})
    )
    assert find(run, "worker") is not None
    assert find(run, "earlier") is None


def test_stop_leaves_the_pid_file_when_it_is_of_a_next_process_by_now(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(child(tmp_path, SLEEPER), run)
    end_all = children.kill_all

    def slowly(processes: Iterable[psutil.Process]) -> None:
        end_all(processes)
        launch(child(tmp_path, SLEEPER), run)

    monkeypatch.setattr(children, "kill_all", slowly)
    assert stop(run, "worker", grace_s=0)
    assert find(run, "worker") is not None


def test_find_gives_nothing_when_the_process_was_killed(run: Path, tmp_path: Path) -> None:
    started = launch(child(tmp_path, SLEEPER), run)
    os.kill(started.pid, signal.SIGKILL)
    until(lambda: find(run, "worker") is None)


@pytest.mark.parametrize("own_session", [False, True])
def test_stop_ends_descendants_when_the_process_has_some(
    run: Path, tmp_path: Path, own_session: bool
) -> None:
    spec = child(tmp_path, PARENT.format(own_session=own_session, life=60))
    launch(spec, run)
    grandchild = int(output_of(spec))
    assert stop(run, "worker", grace_s=2)
    until(lambda: not psutil.pid_exists(grandchild))
    assert find(run, "worker") is None
    assert listed(run) == []


def test_stop_ends_descendants_when_the_process_itself_is_dead(run: Path, tmp_path: Path) -> None:
    spec = child(tmp_path, PARENT.format(own_session=False, life=0))
    launch(spec, run).wait(WITHIN_S)
    grandchild = int(output_of(spec))
    assert psutil.pid_exists(grandchild)
    assert stop(run, "worker", grace_s=2)
    until(lambda: not psutil.pid_exists(grandchild))


def test_stop_kills_when_the_process_does_not_end_in_time(run: Path, tmp_path: Path) -> None:
    spec = child(tmp_path, STUBBORN)
    started = launch(spec, run)
    output_of(spec)
    begun = time.monotonic()
    assert stop(run, "worker", grace_s=0.3)
    assert time.monotonic() - begun >= 0.3
    assert started.wait(WITHIN_S) == -signal.SIGKILL


def test_stop_lets_the_process_end_its_own_way_when_it_does_so_in_time(run: Path, tmp_path: Path) -> None:
    spec = child(tmp_path, POLITE)
    started = launch(spec, run)
    output_of(spec)
    assert stop(run, "worker", grace_s=WITHIN_S)
    assert started.wait(WITHIN_S) == 7


def test_stop_ends_a_process_when_its_first_thread_has_ended_and_another_goes_on(
    run: Path, tmp_path: Path
) -> None:
    spec = child(tmp_path, HEADLESS)
    started = launch(spec, run)
    until(lambda: psutil.Process(started.pid).status() == psutil.STATUS_ZOMBIE)
    record = find(run, "worker")
    assert record is not None
    assert record.pid == started.pid
    assert stop(run, "worker", grace_s=0)
    launch(spec, run)


def test_stop_says_no_when_nothing_runs(run: Path) -> None:
    assert not stop(run, "worker", grace_s=0)


def test_one_old_log_is_kept_when_a_process_starts_again(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    for text in ("first", "second", "third"):
        rotate_log(log)
        log.write_text(text)
    rotate_log(log)
    rotate_log(log)
    assert not log.exists()
    assert (tmp_path / "worker.log.1").read_text() == "third"
