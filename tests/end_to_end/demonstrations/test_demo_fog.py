"""`towpath demo-fog`, small: both scenarios and the change under load, from nothing to report and picture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

WITHIN_S = 1200
"""Four minutes where nothing else runs."""

CLEAN = {"lost": 0, "duplicated": 0, "wrong": 0}


def figures(judgement: dict[str, Any]) -> dict[str, int]:
    return {name: judgement[name] for name in CLEAN}


@pytest.mark.timeout(WITHIN_S + 30)
def test_demo_fog_when_run_then_all_results_are_right_and_report_and_picture_are_written(
    tmp_path: Path,
) -> None:
    output = tmp_path / "demo"
    command = [sys.executable, "-m", "towpath.cli", "demo-fog", "--rates", "60", "--seconds", "6"]
    ended = subprocess.run(
        [*command, "--output", str(output)], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads((output / "fog.json").read_text())
    fog, cloud = report["scenarios"]
    assert (fog["scenario"], cloud["scenario"]) == ("fog", "cloud")
    for scenario in (fog, cloud):
        assert scenario["jobs"] == 13
        assert figures(scenario["judgement"]) == CLEAN
        [turn] = scenario["turns"]
        for stage in turn["stages"].values():
            assert stage["events"] == stage["of_events"] > 0
            assert 0 < stage["rate"] < 3 * turn["rate"]
            assert stage["reported_events"] >= stage["events"]
    edges = [scenario["turns"][0]["crossed"]["edge_links"] for scenario in (fog, cloud)]
    assert edges[0] < edges[1], "raw events cross the links in one scenario only"

    change = report["change"]
    assert {c["job"]: c["actions"] for c in change["plan"]} == {
        "clean-jfk": ["keep"],
        "forward-jfk": ["redirect"],
        "hourly-jfk": ["redirect", "move"],
        "late-jfk": ["remove"],
        "plausible-jfk": ["add"],
    }
    assert figures(change["judgement"]) == CLEAN
    assert change["sent_before"] > 0, "data flowed before the change"
    assert change["sent_during"] > 0, "data flowed during the change"
    assert change["old_topic"] > 0, "events went to the old topic"
    assert change["new_topic"] > 0, "events went to the new topic"
    assert (output / "fog.png").read_bytes().startswith(b"\x89PNG")
    left = [p for p in psutil.process_iter(["cmdline"]) if str(output) in " ".join(p.info["cmdline"] or [])]
    assert not left, "the demonstration left processes behind"
