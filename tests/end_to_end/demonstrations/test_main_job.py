"""`towpath demo`, small: the main job from an empty directory to a report and a picture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

WITHIN_S = 600


@pytest.mark.timeout(WITHIN_S + 30)
@pytest.mark.parametrize(("strategy", "job"), [("handover", "hourly-jfk"), ("parallel", "pace-jfk")])
def test_demo_when_run_then_every_result_is_right_and_report_and_picture_are_written(
    tmp_path: Path, strategy: str, job: str
) -> None:
    output = tmp_path / "demo"
    command = [sys.executable, "-m", "towpath.cli", "demo", "--events", "3000", "--rate", "200"]
    ended = subprocess.run(
        [*command, "--strategy", strategy, "--output", str(output)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads((output / "report.json").read_text())
    assert (report["lost"], report["duplicated"], report["wrong"]) == (0, 0, 0)
    assert report["events"] > 9_000
    assert report["results"] == report["expected_results"] > 9_000
    moves = [(m["job"], m["source"], m["target"], m["strategy"]) for m in report["migrations"]]
    assert moves == [(job, "jfk", "cloud", strategy), (job, "cloud", "jfk", strategy)]
    assert all(m["total_s"] > 0 and m["downtime_s"] == 0 for m in report["migrations"])
    assert (output / "migration.png").read_bytes().startswith(b"\x89PNG")
    page = (output / "report.html").read_text()
    assert all(words in page for words in ("Every result arrived exactly once", "Migration 2", "Journal"))
    left = [p for p in psutil.process_iter(["cmdline"]) if str(output) in " ".join(p.info["cmdline"] or [])]
    assert not left, "the demo left processes behind"
