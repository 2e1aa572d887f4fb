"""The computations of `make bench-scale` are right: `pytest tests/bench`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from scale_growth import Growth, growth, growth_lines, holds, per_site
from scale_usage import Used, added, of_times

SIZES = (10, 25, 50, 100)


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (lambda sites: 2.0, Growth.CONSTANT),
        (lambda sites: 2.0 + sites / 1000, Growth.CONSTANT),
        (lambda sites: 0.5 * sites, Growth.LINEAR),
        (lambda sites: 60.0 + 0.5 * sites, Growth.LINEAR),
        (lambda sites: 0.01 * sites**2, Growth.FASTER),
        (lambda sites: 60.0 + 0.01 * sites**2, Growth.FASTER),
    ],
)
def test_growth_when_a_figure_follows_a_law_then_it_is_told_also_beside_a_constant_part(figure, expected):
    assert growth([(sites, figure(sites)) for sites in SIZES]) is expected


def test_growth_when_there_is_one_size_or_nothing_to_compare_then_there_is_none():
    assert growth([(10, 1.0)]) is None
    assert growth([(10, 0.0), (20, 1.0)]) is None


def test_growth_when_three_sizes_differ_by_noise_around_a_line_then_it_is_linear():
    assert growth([(10, 63.0), (50, 86.0), (100, 109.0)]) is Growth.LINEAR


def test_growth_lines_when_figures_differ_then_each_is_named_once_with_its_ratio():
    lines = growth_lines({10: {"hub": 10.0, "ask": 1.0}, 20: {"hub": 40.0, "ask": 1.0}, 30: {"ask": None}})

    assert lines == [
        "from 10 to 30 sites (×3) does not grow: ask (×1)",
        "from 10 to 30 sites (×3) grows faster than the sites: hub (×4)",
    ]


def test_per_site_when_a_figure_has_a_constant_part_then_only_what_sites_add_counts():
    assert per_site([(50, 85.0), (10, 65.0)]) == pytest.approx(0.5)
    assert per_site([(10, 65.0)]) is None


@pytest.mark.parametrize(
    ("size", "used_mb", "expected"),
    [
        (50, {}, True),
        (100, {}, False),
        (100, {10: 500.0, 50: 2500.0}, True),
        (1000, {10: 500.0}, False),
    ],
)
def test_holds_when_sites_need_what_earlier_ones_took_and_a_third_more_then_it_compares_with_memory(
    size, used_mb, expected
):
    assert holds(size, used_mb, available_mb=10_000.0, first_mb=150.0) is expected


def test_times_when_there_are_a_hundred_then_median_and_99th_percentile_are_in_milliseconds():
    assert of_times([n / 1000 for n in range(1, 101)]) == (pytest.approx(50.5), pytest.approx(99.01))
    assert of_times([]) == (None, None)


def test_added_when_a_process_came_meanwhile_then_all_that_it_used_counts_and_sites_are_averaged():
    before = {"hub": Used(10.0, 1.0), "site server": Used(40.0, 4.0)}
    after = {"hub": Used(11.0, 2.0), "site server": Used(44.0, 8.0), "api": Used(70.0, 0.5)}

    found = added(before, after, seconds=30.0, sites=4)

    assert found["site server PSS, MB"] == pytest.approx(11.0)
    assert found["site server CPU s/min"] == pytest.approx(2.0)
    assert found["hub PSS, MB"] == pytest.approx(11.0)
    assert found["hub CPU s/min"] == pytest.approx(2.0)
    assert found["api CPU s/min"] == pytest.approx(1.0)
