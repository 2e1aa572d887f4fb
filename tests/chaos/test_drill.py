"""Whatever goes wrong at whatever step of a migration: the job has one owner, and every result is right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from towpath.drill.matrix import sample, select
from towpath.drill.report import DrillReport

CELLS, SEED = 20, 7

LONGEST_S = 1500.0
"""About six minutes on two free cores; more where a cell waits for the last deadline of a migration."""

pytestmark = pytest.mark.timeout(LONGEST_S + 60)


def test_migrations_when_a_sample_of_faults_meets_them_then_every_cell_is_clean(tmp_path: Path) -> None:
    written = tmp_path / "report.json"
    arguments = [
        "--sample",
        str(CELLS),
        "--seed",
        str(SEED),
        "--output",
        str(tmp_path),
        "--json",
        str(written),
    ]
    ended = subprocess.run(
        [sys.executable, "-m", "towpath.cli", "drill", *arguments],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    report = DrillReport.model_validate_json(written.read_bytes())
    unclean = {cell.cell.name: cell.reasons for cell in report.cells if not cell.clean}
    assert unclean == {}, ended.stderr
    assert {cell.cell for cell in report.cells} == set(sample(select(), CELLS, SEED))
    assert ended.returncode == 0, ended.stderr
