"""A keeper writes rules to a file, sums up reports of processes, and passes on their metrics."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from running.guard_trial import SCOPE, keeping, loaded, new_home, running, tell_keeper
from running.waiting import eventually, until
from towpath.contracts.faults import LoadedRule, Rule, RuleCount, RuleReport, RuleSet
from towpath.contracts.message import now
from towpath.contracts.metrics import Metric
from towpath.lab.guard.keeper import Keeper
from towpath.lab.guard.report_reader import ReportReader
from towpath.lab.guard.usage import Usage
from towpath.mesh.home import Home
from towpath.telemetry import process_figures

BUSY = "while True: pass\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path)


@pytest.fixture
def gone() -> int:
    """The pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


class Heard:
    """Keeps what is published; refuses at first, if it is told to."""

    def __init__(self, refusals: int = 0) -> None:
        self.metrics: list[Metric] = []
        self._refusals = refusals

    async def __call__(self, metric: Metric) -> None:
        if self._refusals:
            self._refusals -= 1
            raise ConnectionError("no connection")
        self.metrics.append(metric)


def delay(version: int = 1) -> LoadedRule:
    rule = Rule.model_validate(
        {
            "name": "slow",
            "event": {"point": "operator.event"},
            "every": 1000,
            "actions": [{"fault": "delay", "parameters": {"ms": 10}}],
        }
    )
    return LoadedRule(rule=rule, version=version, loaded_at=now())


def count(acted: int, *, version: int = 1, error: str | None = None) -> RuleReport:
    one = RuleCount(
        rule="slow",
        version=version,
        looked=10 * acted,
        acted=acted,
        errors=int(bool(error)),
        last_error=error,
    )
    return RuleReport(kind="count", count=one)


def measured(value: float, ago_s: float = -1.0) -> RuleReport:
    metric = Metric(
        site=SCOPE, entity="jfk-engine", name="batch_s", value=value, at=now() - timedelta(seconds=ago_s)
    )
    return RuleReport(kind="metric", metric=metric)


def report(home: Home, process: str, pid: int, *reports: RuleReport, rest: str = "") -> Path:
    path = home.fault_reports(SCOPE) / f"{process}-{pid}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("".join(each.model_dump_json() + "\n" for each in reports) + rest)
    return path


def told(home: Home) -> RuleSet:
    return RuleSet.model_validate_json(home.fault_rules(SCOPE).read_bytes())


async def test_rules_are_in_the_file_with_their_lease_when_set_returns(home: Home) -> None:
    keeper = Keeper(home, SCOPE, Heard())
    rule = delay()
    before = time.time()
    answer = await tell_keeper(keeper, 7, 5.0, [rule], {"cpu_percent(lga)": 12.5})
    found = told(home)
    assert (found.scope, found.revision, found.rules, found.shared) == (
        SCOPE,
        7,
        [rule],
        {"cpu_percent(lga)": 12.5},
    )
    assert before + 5 <= found.expires_at <= time.time() + 5
    assert (answer.scope, answer.counts, answer.measured) == (SCOPE, [], {})
    await tell_keeper(keeper, 8, 5.0, [], {})
    assert not home.fault_rules(SCOPE).exists()
    assert list(home.faults.glob(".*")) == []


async def test_counts_are_those_of_all_processes_when_each_reports_its_own(home: Home, gone: int) -> None:
    report(home, "jfk-engine", os.getpid(), count(1), count(3, error="it broke"))
    report(home, "jfk-agent", gone, count(4))
    report(home, "jfk-agent", os.getpid(), count(9, version=2))
    async with keeping(home, Heard()) as keeper:
        await tell_keeper(keeper, 1, 5.0, [delay()], {})

        async def counted() -> list[RuleCount]:
            return (await tell_keeper(keeper, 1, 5.0, [delay()], {})).counts

        counts = await eventually(counted)
        assert counts == [
            RuleCount(rule="slow", version=1, looked=70, acted=7, errors=1, last_error="it broke")
        ]
        ended = await tell_keeper(keeper, 2, 5.0, [], {})
        assert ended.counts == counts, "the last counts of rules that end"


def test_counts_stay_when_their_process_is_gone_and_the_reader_too(home: Home, gone: int) -> None:
    path = report(home, "jfk-engine", gone, *(count(number) for number in range(50)), measured(1.0))
    for _ in range(2):
        reader = ReportReader(home.fault_reports(SCOPE), since=0)
        reader.read()
        assert [each.acted for each in reader.counts()] == [49]
        assert len(path.read_text().splitlines()) == 1
    reader.forget([("slow", 1)])
    assert path.exists()
    reader.forget([("slow", 2)])
    assert not path.exists()
    assert reader.counts() == []


def test_reports_go_on_when_their_process_only_seemed_to_be_gone(home: Home, gone: int) -> None:
    """Processes of other containers write to the same directory, and their pids mean nothing here."""
    report(home, "jfk-engine", gone, count(1))
    reader = ReportReader(home.fault_reports(SCOPE), since=0)
    reader.read()
    report(home, "jfk-engine", gone, count(2), measured(1.0))
    assert [metric.value for metric in reader.read()] == [1.0]
    assert [each.acted for each in reader.counts()] == [2]


def test_half_a_line_is_read_when_the_other_half_has_come(home: Home) -> None:
    line = count(5).model_dump_json()
    report(home, "jfk-engine", os.getpid(), measured(1.0), rest=line[:20])
    reader = ReportReader(home.fault_reports(SCOPE), since=0)
    assert [metric.value for metric in reader.read()] == [1.0]
    assert reader.counts() == []
    report(home, "jfk-engine", os.getpid(), rest=line[20:] + "\nnonsense\n")
    report(home, "jfk-engine", os.getpid(), measured(2.0))
    assert [metric.value for metric in reader.read()] == [2.0]
    assert [each.acted for each in reader.counts()] == [5]


async def test_metrics_are_published_once_when_processes_measure(home: Home) -> None:
    report(home, "jfk-engine", os.getpid(), measured(0.5, ago_s=60))
    heard = Heard()
    async with keeping(home, heard):
        report(home, "jfk-engine", os.getpid(), measured(1.0), measured(2.0))
        report(home, "jfk-agent", os.getpid(), measured(3.0))
        await eventually(lambda: len(heard.metrics) >= 3)
        report(home, "jfk-agent", os.getpid(), measured(4.0))
        await eventually(lambda: len(heard.metrics) >= 4)
    assert sorted(metric.value for metric in heard.metrics) == [1.0, 2.0, 3.0, 4.0]


async def test_later_metrics_are_published_when_earlier_ones_were_refused(home: Home) -> None:
    heard = Heard(refusals=1)
    async with keeping(home, heard):
        report(home, "jfk-engine", os.getpid(), measured(1.0))
        await eventually(lambda: not heard._refusals)
        report(home, "jfk-engine", os.getpid(), measured(2.0))
        await eventually(lambda: heard.metrics)
    assert [metric.value for metric in heard.metrics] == [2.0]


async def test_usage_is_measured_only_when_a_condition_asks_for_it(home: Home) -> None:
    async with keeping(home, Heard()) as keeper:
        assert (await tell_keeper(keeper, 1, 5, [delay()], {})).measured == {}
        asks = loaded("pause", "process", "jfk-nats", "cpu_percent(site) > 1000")

        async def measured() -> dict[str, float]:
            return (await tell_keeper(keeper, 2, 5, [asks], {})).measured

        assert set(await eventually(measured)) == {"cpu_percent", "memory_percent"}


def test_usage_is_that_of_the_scope_and_of_no_other(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.create_site("lga")
    now_s = 0.0
    monkeypatch.setattr(process_figures, "time", SimpleNamespace(monotonic=lambda: now_s))
    jfk, lga = Usage(home, "jfk"), Usage(home, "lga")
    with running(home, "jfk-engine", BUSY) as busy, running(home, "lga-agent") as idle:
        busy_s, idle_s = used_s(busy), used_s(idle)
        assert jfk.measure() == lga.measure() == {}
        least_s = used_s(busy) + 0.3
        until(lambda: used_s(busy) > least_s)
        now_s = 10.0
        at_jfk, at_lga = jfk.measure(), lga.measure()
        busy_s, idle_s = used_s(busy) - busy_s, used_s(idle) - idle_s

    assert percent(0.3) <= at_jfk["cpu_percent"] <= percent(busy_s)
    assert at_lga["cpu_percent"] <= percent(idle_s)
    assert 0 < at_lga["memory_percent"] < 5


def used_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def percent(seconds: float) -> float:
    """Return processor time as a share of all processors in ten seconds, as it is reported."""
    return round(100 * seconds / (10 * (psutil.cpu_count() or 1)), 2)


@pytest.mark.parametrize(
    ("process", "scope"),
    [
        ("jfk-engine", "jfk"),
        ("jfk-east-engine", "jfk-east"),
        ("jfk-west-engine", "jfk"),
        ("coordinator", "hub"),
        ("jfk", "hub"),
    ],
)
def test_scope_is_the_longest_site_that_fits_when_names_begin_alike(
    home: Home, process: str, scope: str
) -> None:
    home.create_site("jfk-east")
    assert home.scope_of(process) == scope
