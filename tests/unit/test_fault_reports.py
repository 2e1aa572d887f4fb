"""A process reports on its rules, and names its executor."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from running.fault_trial import read_reports
from running.waiting import WITHIN_S
from towpath.contracts.faults import RuleCount
from towpath.contracts.message import now
from towpath.contracts.metrics import Metric
from towpath.lab.faults import reports as module
from towpath.lab.faults.process_rules import executor
from towpath.lab.faults.reports import Reports, report_file


def metric(value: float) -> Metric:
    return Metric(site="jfk", entity="e", name="n", value=value, at=now())


def test_reports_when_flushed_again_then_lines_are_added_whole_and_in_order(tmp_path: Path) -> None:
    file = tmp_path / "not" / "there" / "p-1.jsonl"
    reports = Reports(file)
    reports.metric(metric(1))
    reports.flush()
    reports.flush()
    reports.count(RuleCount(rule="r", version=2, looked=3))
    reports.metric(metric(2))
    reports.flush()

    told = read_reports(file)
    assert [line.kind for line in told] == ["metric", "count", "metric"]
    assert told[1].count == RuleCount(rule="r", version=2, looked=3)


def test_reports_when_several_threads_add_and_write_then_no_line_is_lost_or_mixed(tmp_path: Path) -> None:
    file = tmp_path / "p-1.jsonl"
    reports = Reports(file)

    def work(first: int) -> None:
        for n in range(first, first + 500):
            reports.metric(metric(n))
            if n % 50 == 0:
                reports.flush()

    threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)
    reports.flush()
    values = sorted(r.metric.value for r in read_reports(file) if r.metric)
    assert values == [1000 * k + n for k in range(4) for n in range(500)]


def test_reports_when_they_cannot_be_written_then_nothing_fails_and_later_ones_are(tmp_path: Path) -> None:
    blocked = tmp_path / "reports"
    blocked.write_text("a file where the directory should be")
    reports = Reports(blocked / "p-1.jsonl")
    reports.metric(metric(1))
    reports.flush()
    blocked.unlink()
    reports.metric(metric(2))
    reports.flush()
    assert [r.metric.value for r in read_reports(blocked / "p-1.jsonl") if r.metric] == [2.0]


def test_reports_when_more_come_than_are_kept_then_the_newest_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_LINES", 3)
    reports = Reports(tmp_path / "p-1.jsonl")
    for n in range(10):
        reports.metric(metric(n))
    reports.flush()
    assert [r.metric.value for r in read_reports(tmp_path / "p-1.jsonl") if r.metric] == [7.0, 8.0, 9.0]


WORKER = "from towpath.lab.faults.process_rules import executor; print(executor())"
BACKEND = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"


def test_executor_when_a_parent_is_one_then_is_its_number() -> None:
    assert executor() is None
    command = [sys.executable, "-c", BACKEND, WORKER, "--cores", "1", "--executor-id", "7"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == "7"


def test_report_file_when_a_process_has_the_pid_of_an_earlier_one_then_is_another(tmp_path: Path) -> None:
    first, second = report_file(tmp_path, "jfk-engine"), report_file(tmp_path, "jfk-engine")
    assert first != second
    assert first.stem.rpartition("-")[2] == second.stem.rpartition("-")[2] == str(os.getpid())
