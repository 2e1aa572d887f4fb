"""From the file with a scope's rules to the rules at work in a process, and back to reports."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from running.fault_trial import PARCELS, loaded, parcels, reports_of, serials, write_rules
from towpath.contracts import message
from towpath.contracts.faults import RuleReport
from towpath.hooks.points import SINK_PUBLISH, SOURCE_READ
from towpath.lab.faults import point_rule, rule_at_work
from towpath.lab.faults.board import Board
from towpath.lab.faults.clock import real_time

AT = {"point": "source.read"}
DROP = {"fault": "drop"}

SLACK_S = 250.0
"""Tolerance between two readings of the clock, less than half of any skew: a busy machine delays tests."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "faults" / "jfk.json"


@pytest.fixture
def board(file: Path) -> Iterator[Board]:
    """Return a board that reads its file when a test says so."""
    board = Board(file, "jfk-engine")
    yield board
    board.close()


def reports(file: Path, pid: int | None = None, process: str = "jfk-engine") -> list[RuleReport]:
    return reports_of(file.parent / "reports" / "jfk", process, pid or os.getpid())


def test_points_when_there_is_no_file_then_have_no_rules(board: Board) -> None:
    board.look()
    assert not SOURCE_READ.rules


def test_rules_when_the_file_has_them_then_are_at_their_points_alone(board: Board, file: Path) -> None:
    write_rules(file, loaded(AT, DROP, every=2))
    board.look()
    assert serials(SOURCE_READ.through(parcels(3), PARCELS)) == [1, 3]
    assert not SINK_PUBLISH.rules


def test_rule_when_renewed_then_goes_on_counting_and_when_loaded_again_then_starts_over(
    board: Board, file: Path
) -> None:
    first = loaded(AT, DROP, every=2)
    for renewal in range(2):
        write_rules(file, first, lease_s=60 + renewal)
        board.look()
        passed = serials(SOURCE_READ.through(parcels(3), PARCELS))
        assert passed == ([1, 3], [2])[renewal]

    write_rules(file, first.model_copy(update={"version": 2}))
    board.look()
    assert serials(SOURCE_READ.through(parcels(3), PARCELS)) == [1, 3]


@pytest.mark.parametrize("end", ["gone", "empty", "damaged", "expired"])
def test_rules_when_the_file_does_not_hold_them_any_more_then_end(board: Board, file: Path, end: str) -> None:
    write_rules(file, loaded(AT, DROP))
    board.look()
    assert SOURCE_READ.rules

    match end:
        case "gone":
            file.unlink()
        case "empty":
            write_rules(file)
        case "damaged":
            file.write_text(file.read_text()[:-10])
        case "expired":
            write_rules(file, loaded(AT, DROP), lease_s=-1)
    board.look()
    assert not SOURCE_READ.rules


class Clock:
    """The time that rules go by. It stands still until a test puts it forward."""

    def __init__(self) -> None:
        self.now = real_time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (point_rule, rule_at_work):
        monkeypatch.setattr(module, "real_time", clock)
    return clock


def test_rules_when_they_expire_while_no_one_looks_then_do_nothing(
    board: Board, file: Path, clock: Clock
) -> None:
    write_rules(file, loaded(AT, DROP), lease_s=60)
    board.look()
    assert SOURCE_READ.through(parcels(1), PARCELS) == []
    clock.now += 100
    assert serials(SOURCE_READ.through(parcels(1), PARCELS)) == [1]


@pytest.mark.parametrize(
    ("where", "counts"),
    [
        ({}, True),
        ({"site": "jfk"}, True),
        ({"site": "ord"}, False),
        ({"process": "jfk-engine"}, True),
        ({"process": "jfk-agent"}, False),
        ({"worker": "1"}, False),
    ],
)
def test_rule_when_it_is_about_some_processes_then_is_at_work_in_those(
    board: Board, file: Path, where: dict[str, str], counts: bool
) -> None:
    write_rules(file, loaded(AT, DROP, where=where))
    board.look()
    assert bool(SOURCE_READ.rules) == counts


def test_rule_when_this_process_does_not_understand_it_then_the_others_are_at_work(
    board: Board, file: Path
) -> None:
    unknown = loaded(AT, {"fault": "from_the_future"}, name="unknown")
    write_rules(file, unknown, loaded(AT, DROP))
    board.look()
    assert SOURCE_READ.through(parcels(1), PARCELS) == []

    (count,) = [r.count for r in reports(file) if r.count and r.count.rule == "unknown"]
    assert count.errors == 1
    assert "from_the_future" in (count.last_error or "")


def test_counts_when_a_rule_ends_then_the_last_ones_are_told(board: Board, file: Path) -> None:
    write_rules(file, loaded(AT, DROP, every=2))
    board.look()
    SOURCE_READ.through(parcels(5), PARCELS)
    file.unlink()
    board.look()
    last = reports(file)[-1].count
    assert last is not None
    assert (last.rule, last.version, last.looked, last.acted, last.errors) == ("rule", 1, 5, 2, 0)


def test_clock_when_a_rule_skews_it_then_messages_and_time_are_off_until_it_ends(
    board: Board, file: Path
) -> None:
    true_time, true_time_ns = time.time, time.time_ns
    event = {"target": "clock", "name": "jfk-engine"}
    ahead = loaded(event, {"fault": "clock_skew", "seconds": 3600}, name="ahead")
    behind = loaded(event, {"fault": "clock_skew", "seconds": -600}, name="behind")
    elsewhere = loaded(
        {"target": "clock", "name": "jfk-agent"}, {"fault": "clock_skew", "seconds": 9}, name="else"
    )
    write_rules(file, ahead, behind, elsewhere)
    board.look()
    try:
        assert time.time() - true_time() == pytest.approx(3000, abs=SLACK_S)
        assert time.time_ns() / 1e9 - true_time() == pytest.approx(3000, abs=SLACK_S)
        assert message.now().timestamp() - true_time() == pytest.approx(3000, abs=SLACK_S)
    finally:
        file.unlink()
        board.look()
    assert (time.time, time.time_ns) == (true_time, true_time_ns)
    assert message.now().timestamp() - true_time() == pytest.approx(0, abs=SLACK_S)


def test_clock_when_its_condition_holds_for_some_time_then_is_off_for_that_time(
    board: Board, file: Path, clock: Clock
) -> None:
    true_time = time.time
    event = {"target": "clock", "name": "jfk-engine"}
    write_rules(file, loaded(event, {"fault": "clock_skew", "seconds": 3000}, condition="elapsed_s < 30.0"))
    clock.now += 20
    board.look()
    assert time.time() - true_time() == pytest.approx(3000, abs=SLACK_S)

    clock.now += 20
    board.look()
    assert time.time is true_time


class Waits:
    """Stands for the event that ends a board: writes down each wait, and ends the board after some."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.waits_s.append(seconds)
        return len(self.waits_s) > 10

    def set(self) -> None:
        pass


def test_board_when_started_then_looks_several_times_a_second(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    waits = Waits()
    monkeypatch.setattr(board, "_ended", waits)
    monkeypatch.setattr(board, "look", lambda: looks.append(len(waits.waits_s)))

    board.start()
    board._thread.join()

    assert looks == [0, *range(1, 11)]
    assert max(waits.waits_s) <= 0.25
