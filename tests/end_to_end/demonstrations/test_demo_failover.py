"""`towpath demo-failover`, with little state: from nothing to report and picture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

WITHIN_S = 1200
"""Four minutes where nothing else runs."""


@pytest.mark.timeout(WITHIN_S + 30)
def test_demo_failover_when_run_then_every_result_comes_once_though_its_site_was_dead(tmp_path: Path) -> None:
    output = tmp_path / "demo"
    command = [sys.executable, "-m", "towpath.cli", "demo-failover", "--state-mb", "5"]
    ended = subprocess.run(
        [*command, "--output", str(output)], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads((output / "failover.json").read_text())

    jobs = {each["job"]: each for each in report["jobs"]}
    assert jobs.keys() == {"clean-jfk", "hourly-jfk", "hourly-lga", "tokens"}
    for job, each in jobs.items():
        judgement = each["judgement"]
        assert judgement["expected"] > 0, job
        assert judgement["lost"] == judgement["duplicated"] == judgement["wrong"] == 0, job
    assert {
        job: each["output_now"] for job, each in jobs.items() if each["output_now"] != each["output"]
    } == {"clean-jfk": "cloud"}
    assert all(each["again"] == 0 for job, each in jobs.items() if job != "clean-jfk")
    moments = report["moments"]
    for job in ("hourly-lga", "tokens"):
        first_at = moments["decided_at"] + jobs[job]["first_result_after_s"]
        assert first_at < moments["returned_at"], f"{job} went on only when its site was back"
    assert (output / "failover.png").read_bytes().startswith(b"\x89PNG")
    left = [p for p in psutil.process_iter(["cmdline"]) if str(output) in " ".join(p.info["cmdline"] or [])]
    assert not left, "the demonstration left processes behind"
