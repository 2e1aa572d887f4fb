"""Comparison of settings that were measured by turns."""

from __future__ import annotations

import numpy as np
import pytest
from faults_ratios import dearer
from faults_usage import Sample, cores, cpu_between


def test_ratio_when_rounds_differ_far_more_than_settings_then_still_finds_the_difference() -> None:
    random = np.random.default_rng(1)
    rounds = random.uniform(1.0, 4.0, 40)
    ratio = dearer(rounds * 1.02 * random.normal(1, 0.005, 40), rounds)
    assert ratio.percent == pytest.approx(2.0, abs=0.5)
    assert 0 < ratio.low < ratio.percent < ratio.high < 4


def test_ratio_when_settings_are_alike_then_its_interval_holds_zero() -> None:
    random = np.random.default_rng(2)
    ratio = dearer(random.normal(1, 0.05, 30), random.normal(1, 0.05, 30))
    assert ratio.low < 0 < ratio.high


def test_cpu_when_an_interval_ends_between_samples_then_is_interpolated() -> None:
    samples = [Sample(at=float(second), cpu_s=2.0 * second, memory_mb=100.0) for second in range(5)]
    assert cpu_between(samples, 0.5, 2.5) == pytest.approx(4.0)


def test_cores_when_samples_are_far_apart_then_leaves_the_gap_out() -> None:
    samples = [Sample(at, 2.0 * at, 100.0) for at in (0.0, 0.25, 5.0, 5.25)]
    assert cores(samples, 0.0, 10.0) == pytest.approx([2.0, 2.0])
