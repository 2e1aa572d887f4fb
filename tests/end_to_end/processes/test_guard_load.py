"""Load is as high as was asked for, and is gone with the process that made it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest

from running.guard_trial import SCOPE, is_gone
from running.waiting import until
from towpath.contracts.errors import TowpathError
from towpath.contracts.faults import TargetKind
from towpath.lab.faults.load_fault import LoadChildren
from towpath.lab.faults.registry import HeldFault, Target, faults

HOLDER = """\
import sys, time
from towpath.lab.faults.load_fault import LoadChildren
children = LoadChildren("cpu", "1")
children.keep()
print(children.running[0], flush=True)
time.sleep(60)
"""


def held(name: str, **parameters: Any) -> HeldFault:
    kind = faults()[name]
    made = kind(kind.parameters_type.model_validate(parameters), Random(0))
    assert isinstance(made, HeldFault)
    return made


def machine(directory: Path) -> Target:
    return Target(TargetKind.MACHINE, SCOPE, processes=list, directory=str(directory))


def loaders() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if not is_gone(child)]


def test_processor_is_used_until_the_load_is_released(tmp_path: Path) -> None:
    fault = held("cpu_load", cores=1, percent=60)
    fault.hold(machine(tmp_path))
    try:
        [loader] = loaders()
        until(lambda: loader.cpu_times().user > 0.3)
        assert loader.cmdline()[-1] == "60.0"
    finally:
        fault.release(machine(tmp_path))
    assert not loaders()


def test_one_process_a_core_runs_and_is_replaced_when_it_dies(tmp_path: Path) -> None:
    fault = held("cpu_load", cores=3, percent=1)
    fault.hold(machine(tmp_path))
    before = loaders()
    assert len(before) == 3
    before[0].kill()
    until(lambda: is_gone(before[0]))
    fault.hold(machine(tmp_path))
    after = loaders()
    assert len(after) == 3
    assert set(before[1:]) < set(after)
    fault.release(machine(tmp_path))
    assert not loaders()


def test_memory_is_taken_and_given_back(tmp_path: Path) -> None:
    fault = held("memory_load", megabytes=150)
    fault.hold(machine(tmp_path))
    [loader] = loaders()
    until(lambda: loader.memory_info().rss > 150e6)
    assert loader.memory_info().rss < 175e6
    assert Path(f"/proc/{loader.pid}/oom_score_adj").read_text().strip() == "1000"
    fault.release(machine(tmp_path))
    assert is_gone(loader)


def test_memory_is_refused_when_there_is_not_so_much(tmp_path: Path) -> None:
    with pytest.raises(TowpathError, match="up to") as refused:
        held("memory_load", megabytes=1_000_000).hold(machine(tmp_path))
    assert (refused.value.detail.field, refused.value.detail.value) == ("megabytes", 1_000_000)
    assert not loaders()


def test_disk_is_written_to_and_nothing_is_left_there(tmp_path: Path) -> None:
    fault = held("disk_load", writers=2, kilobytes=100)
    fault.hold(machine(tmp_path))
    writers = loaders()
    assert len(writers) == 2
    until(lambda: all(written(writer) > 500_000 for writer in writers))
    assert list(tmp_path.iterdir()) == []
    fault.release(machine(tmp_path))
    assert not loaders()


def written(process: psutil.Process) -> int:
    """Return the bytes that a process has written."""
    return psutil.Process(process.pid).io_counters().write_chars


def test_load_ends_when_the_process_that_made_it_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        loader = psutil.Process(int(holder.stdout.readline()))
        assert loader.is_running()
        holder.kill()
        until(lambda: is_gone(loader))


def test_release_is_harmless_when_nothing_is_held(tmp_path: Path) -> None:
    for name in ("cpu_load", "disk_load"):
        held(name).release(machine(tmp_path))
    held("memory_load", megabytes=1).release(machine(tmp_path))
    LoadChildren("cpu", "1").end()
