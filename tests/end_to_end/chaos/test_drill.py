"""After any fault at any step of a migration, the job has one owner, and every result is right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from towpath.lab.drill.matrix import sample, select
from towpath.lab.scenarios.campaign_report import CampaignReport
from towpath.mesh import lifecycle
from towpath.mesh.home import Home

CELLS, SEED = 20, 7

LONGEST_S = 1500.0
"""About six minutes on two free cores; more where a cell waits for the last deadline of a migration."""

RECOVERED_WITHIN_S = 300.0
"""Time limit for results to flow again. Only the drill, on a free machine, judges how soon they do."""

pytestmark = pytest.mark.timeout(LONGEST_S + 60)


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Path]:
    """Return a directory for mesh and report. In the end, stop the mesh even if the drill was killed."""
    try:
        yield tmp_path
    finally:
        lifecycle.down(Home(tmp_path / "mesh"))


def test_migrations_when_a_sample_of_faults_meets_them_then_every_cell_is_clean(output: Path) -> None:
    written = output / "report.json"
    options = ["--sample", str(CELLS), "--seed", str(SEED), "--output", str(output), "--json", str(written)]
    options += ["--recovered-within", str(RECOVERED_WITHIN_S)]
    ended = subprocess.run(
        [sys.executable, "-m", "towpath.cli", "drill", *options],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert written.exists(), ended.stderr
    report = CampaignReport.model_validate_json(written.read_bytes())
    assert {run.scenario: run.problems for run in report.failed} == {}, ended.stderr
    drawn = sample(select(paired=None), CELLS, SEED)
    assert {run.scenario for run in report.runs} == {cell.scenario for cell in drawn}
    assert ended.returncode == 0, ended.stderr
