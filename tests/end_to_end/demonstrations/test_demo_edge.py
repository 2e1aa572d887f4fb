"""`towpath demo-edge`: the whole journey, from nothing to report, picture and page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

WITHIN_S = 900
"""Four minutes where nothing else runs."""

REPORTS = 102_200
"""Of the journey. While the train is made ready, it sends some more."""


@pytest.mark.timeout(WITHIN_S + 30)
def test_demo_edge_when_run_then_the_flat_wheel_is_found_without_a_link_and_every_event_arrives_once(
    tmp_path: Path,
) -> None:
    output = tmp_path / "demo"
    command = [sys.executable, "-m", "towpath.cli", "demo-edge", "--output", str(output)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads((output / "edge.json").read_text())
    assert report["reports"] == REPORTS
    for job, verdict in report["judgements"].items():
        counts = (verdict["lost"], verdict["duplicated"], verdict["wrong"], verdict["unexpected"])
        assert counts == (0, 0, 0, 0), job
    on_board, delivered = (report["judgements"][job] for job in ("wheels", "delivered"))
    assert on_board["results"] == delivered["results"] > REPORTS

    found = report["detection"]
    assert [wheel for wheel, alarms in report["alarms"].items() if alarms] == [found["wheel"]]
    stations = {contact["station"]: contact for contact in report["contacts"]}
    assert found["known_at"] > stations["Cedar"]["link_at"], "the alarm was made where there is no link"
    first, second = stations["Birch"]["asked"], stations["Cedar"]["asked"]
    assert first["operation"] is not None
    assert second["refusal"] is not None, "the stop is too short"
    assert [move["state"] for move in report["migrations"]][:1] == ["completed"]
    assert (output / "edge.png").read_bytes().startswith(b"\x89PNG")
    page = (output / "edge.html").read_text()
    assert all(words in page for words in ("Everything was as it should be", "Migration 1", "Cedar"))
    left = [p for p in psutil.process_iter(["cmdline"]) if str(output) in " ".join(p.info["cmdline"] or [])]
    assert not left, "the demonstration left processes behind"
