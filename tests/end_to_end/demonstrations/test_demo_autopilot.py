"""`towpath demo-autopilot`, the day with the autopilot alone: from nothing to report and picture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

WITHIN_S = 1200
"""Six minutes where nothing else runs."""


@pytest.mark.timeout(WITHIN_S + 30)
def test_demo_autopilot_when_run_then_jobs_leave_and_every_result_is_right(tmp_path: Path) -> None:
    output = tmp_path / "demo"
    command = [sys.executable, "-m", "towpath.cli", "demo-autopilot", "--only-with"]
    ended = subprocess.run(
        [*command, "--output", str(output)], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    [day] = json.loads((output / "autopilot.json").read_text())["days"]

    for each in day["jobs"]:
        judgement = each["judgement"]
        assert judgement["results"] == judgement["expected"] > 0, each
        assert judgement["lost"] == judgement["duplicated"] == judgement["wrong"] == 0, each
    reasons = [each["reason"] for each in day["decisions"] if each["state"] == "done"]
    assert any("train will have no link" in reason for reason in reasons)
    assert (output / "autopilot.png").read_bytes().startswith(b"\x89PNG")
    left = [p for p in psutil.process_iter(["cmdline"]) if str(output) in " ".join(p.info["cmdline"] or [])]
    assert not left, "the demonstration left processes behind"
