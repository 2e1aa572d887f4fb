"""`towpath demo-queries`, small: from nothing to report and picture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

WITHIN_S = 1200
"""Three minutes where nothing else runs."""


@pytest.mark.timeout(WITHIN_S + 30)
def test_demo_queries_when_run_then_every_answer_is_right_and_report_and_picture_are_written(
    tmp_path: Path,
) -> None:
    output = tmp_path / "demo"
    command = [sys.executable, "-m", "towpath.cli", "demo-queries", "--rate", "120", "--seconds", "20"]
    ended = subprocess.run(
        [*command, "--output", str(output)], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads((output / "queries.json").read_text())

    assert len(report["queries"]) == 9
    for each in [*report["queries"], *report["figures"]]:
        judgement = each["judgement"]
        assert judgement["results"] == judgement["expected"], each
        assert judgement["lost"] == judgement["duplicated"] == judgement["wrong"] == 0, each
    assert all(each["judgement"]["results"] for each in report["queries"])
    assert [move["state"] for move in report["moves"]] == ["completed", "completed"]
    alone, raw = report["crossings"]
    edges = report["sites"]
    assert sum(alone["link_bytes"][site] for site in edges) < sum(raw["link_bytes"][site] for site in edges)
    assert (output / "queries.png").read_bytes().startswith(b"\x89PNG")
    left = [p for p in psutil.process_iter(["cmdline"]) if str(output) in " ".join(p.info["cmdline"] or [])]
    assert not left, "the demonstration left processes behind"
