"""`towpath metrics`: values people can read, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from towpath.cli.__main__ import app
from towpath.cli.metric_views import BLOCKS, MOST_BLOCKS, blocks, quantity
from towpath.cli.times import moment_of, seconds_of
from towpath.contracts.metrics_table import METRICS_TABLE


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--home", str(home), "metrics", *arguments])


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, "By", "0 B"),
        (1023, "By", "1,023 B"),
        (1536, "By", "1.5 KiB"),
        (3 * 1024**3, "By", "3 GiB"),
        (2_500_000, "By/s", "2.38 MiB/s"),
        (0.0123, "s", "12.3 ms"),
        (0.0000005, "s", "0.5 µs"),
        (0, "s", "0 s"),
        (90, "s", "90 s"),
        (1.25, "1", "1.25"),
        (12345.6, "{event}/s", "12,346 events/s"),
        (3, "{restart}", "3 restarts"),
    ],
)
def test_value_when_shown_then_is_of_a_handy_size_with_its_unit(value: float, unit: str, shown: str) -> None:
    assert quantity(value, unit) == shown


def test_line_of_blocks_when_values_rise_then_rises() -> None:
    assert blocks([0, 1, 2, 3, 4, 5, 6, 7]) == BLOCKS


def test_line_of_blocks_when_values_are_equal_then_is_flat() -> None:
    assert blocks([5, 5, 5]) == BLOCKS[0] * 3


def test_line_of_blocks_when_there_are_many_values_then_is_not_longer_than_a_line() -> None:
    assert len(blocks(list(range(1000)))) == MOST_BLOCKS


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", 600), ("250ms", 0.25), ("1.5h", 5400), ("30", 30), ("1d", 86400)]
)
def test_length_of_time_when_written_as_people_do_then_is_understood(text: str, seconds: float) -> None:
    assert seconds_of(text, "last") == seconds


def test_moment_when_it_has_no_zone_then_is_of_this_machine() -> None:
    assert moment_of("2026-01-31T12:00:00", "since").utcoffset() is not None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["job.backlogg"], ["metrics", "job.backlog"]),
        (["--last", "soon"], ["last", "10m"]),
        (["--last", "0s"], ["last"]),
        (["--since", "noon"], ["since", "ISO 8601"]),
        (["--last", "10m", "--since", "2026-01-01T00:00:00Z"], ["last"]),
        (["--step", "10s"], ["since"]),
        (["--until", "2026-01-01T00:00:00Z"], ["since"]),
        (["--site", "Mars", "--last", "10m"], ["sites"]),
        (["--aggregation", "median"], ["aggregation", "max"]),
        (["what is this"], ["metrics"]),
    ],
)
def test_command_when_an_argument_is_wrong_then_ends_with_2_and_one_line(
    tmp_path: Path, arguments: list[str], told: list[str]
) -> None:
    result = run(tmp_path, *arguments)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in told), result.stderr


def test_command_when_no_mesh_runs_then_ends_with_1_and_says_so(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "towpath up" in result.stderr


def test_definitions_when_listed_then_are_all_there_without_a_mesh(tmp_path: Path) -> None:
    assert [each["name"] for each in json.loads(run(tmp_path, "--list", "--json").stdout)] == [
        metric.name for metric in METRICS_TABLE
    ]
    assert "job.backlog" in run(tmp_path, "--list").stdout
