"""Only the processes that a rule names read the file with their scope's rules."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from running.fault_trial import loaded, reports_of, write_rules
from running.waiting import WITHIN_S, until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "faults" / "jfk.json"


PROCESS = """
import os, sys
from towpath.lab.faults import board
from towpath.hooks.points import SINK_PUBLISH

board.watch()
board.watch()
imported = [name for name in ("pydantic", "cel", "towpath.lab.faults.point_rule") if name in sys.modules]
print("started", *imported, flush=True)
for line in sys.stdin:
    print("rules" if SINK_PUBLISH.rules else "none", flush=True)
"""


class Process:
    """A process that looks at its rules, and says whether it has some."""

    def __init__(self, file: Path, name: str) -> None:
        environment = {**os.environ, "TOWPATH_FAULTS": str(file), "TOWPATH_PROCESS": name}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROCESS],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started = self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def has_rules(self) -> bool:
        assert self.process.stdin is not None
        self.process.stdin.write("?\n")
        self.process.stdin.flush()
        return self._line() == "rules"

    def close(self) -> None:
        self.process.communicate(timeout=WITHIN_S)


@pytest.fixture
def processes(file: Path) -> Iterator[Callable[[str], Process]]:
    made: list[Process] = []

    def make(name: str) -> Process:
        made.append(Process(file, name))
        return made[-1]

    yield make
    for process in made:
        process.close()


def test_process_when_there_are_no_rules_then_imports_nothing_for_them(
    processes: Callable[[str], Process],
) -> None:
    assert processes("jfk-agent").started == "started"


def test_processes_when_rules_come_and_go_then_those_they_are_about_follow(
    processes: Callable[[str], Process], file: Path
) -> None:
    agent, engine = processes("jfk-agent"), processes("jfk-engine")
    rule = loaded({"point": "sink.publish"}, {"fault": "delay", "ms": 1}, where={"process": "jfk-engine"})
    write_rules(file, rule)
    until(engine.has_rules)
    assert not agent.has_rules()

    write_rules(file, rule, lease_s=0.5)
    until(lambda: not engine.has_rules())


def test_process_when_it_ends_then_has_told_its_counts(
    processes: Callable[[str], Process], file: Path
) -> None:
    silent = loaded({"point": "sink.publish"}, {"fault": "throw"})
    missing = loaded({"point": "sink.publish"}, {"fault": "no_such_fault"}, name="missing")
    write_rules(file, silent, missing)
    process = processes("jfk-agent")
    process.close()
    told = reports_of(file.parent / "reports" / "jfk", "jfk-agent", process.process.pid)
    (count,) = [report.count for report in told]
    assert count is not None
    assert (count.rule, count.errors) == ("missing", 1)
