"""The verdicts of the benchmarks find loss, repetition and wrong results. Run with `pytest tests/bench`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import mqtt_packets
import reports
from figures import Case, Measured, Target
from verdicts import counts_of, judge_passed, judge_windows

TRUTH = {(0, "s00001"): 3, (1_000_000, "s00001"): 2}
COMPLETE = [((0, "s00001"), 3), ((1_000_000, "s00001"), 2)]


def test_passed_events_when_each_serial_comes_once_then_nothing_is_wrong():
    verdict = judge_passed(np.array([12, 11, 13]), np.array([0.1]), 10, 13)
    assert (verdict.lost, verdict.duplicated) == (0, 0)


def test_passed_events_when_one_is_missing_and_one_comes_twice_then_both_are_counted():
    verdict = judge_passed(np.array([11, 13, 13]), np.array([0.1]), 10, 13)
    assert (verdict.lost, verdict.duplicated) == (1, 1)


def test_windows_when_all_are_there_then_nothing_is_wrong():
    assert judge_windows(TRUTH, COMPLETE).faults == 0


@pytest.mark.parametrize(
    ("results", "lost", "duplicated", "wrong"),
    [
        (COMPLETE[:1], 1, 0, 0),
        ([*COMPLETE, COMPLETE[0]], 0, 1, 0),
        ([((0, "s00001"), 2), COMPLETE[1]], 0, 0, 1),
        ([*COMPLETE, ((5, "s00009"), 1)], 0, 0, 1),
    ],
    ids=["missing", "repeated", "wrong count", "never expected"],
)
def test_windows_when_results_differ_from_the_truth_then_the_fault_is_named(results, lost, duplicated, wrong):
    verdict = judge_windows(TRUTH, results)
    assert (verdict.lost, verdict.duplicated, verdict.wrong) == (lost, duplicated, wrong)


def test_window_truth_when_the_last_window_is_open_then_it_is_not_expected():
    times = np.array([100, 200, 1_000_100, 2_000_000])
    assert counts_of(times, np.array([1, 1, 1, 7]), 1.0) == {(0, "s00001"): 2, (1_000_000, "s00001"): 1}


def test_reports_when_patched_then_sensor_and_time_are_read_back():
    rows = np.tile(np.frombuffer(reports.template(150), np.uint8), (2, 1))
    reports.patch(rows, np.array([0, 1]), np.array([7, 42]), datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC))
    payloads = [row.tobytes() for row in rows]
    assert reports.sensors_of(payloads).tolist() == [7, 42]
    assert str(reports.times_of(payloads)[1]) == "2026-01-02T03:04:05.678000"


def test_mqtt_packets_when_cut_anywhere_then_only_whole_ones_are_found():
    packet = mqtt_packets.publish("a/b", b"x" * 300)
    both = packet + packet
    for cut in range(len(both) + 1):
        found, rest = mqtt_packets.packets(both[:cut])
        assert len(found) == cut // len(packet)
        assert rest == len(found) * len(packet)


@pytest.mark.parametrize(("value", "met"), [(3.0, True), (3.1, False), (None, False)])
def test_target_when_judged_then_a_missing_figure_does_not_meet_it(value, met):
    assert Target(at_most=3.0).met(value) is met


def test_measured_when_a_case_has_faults_then_it_is_not_sound():
    assert not Measured("b", "t", cases=[Case("c", {}, faults=1)]).sound
    assert not Measured("b", "t", error="x").sound
    assert Measured("b", "t", cases=[Case("c", {})]).sound
