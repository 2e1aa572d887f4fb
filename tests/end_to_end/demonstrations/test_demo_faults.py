"""`towpath demo-faults`, small: a word count on a cluster, slowed down worker by worker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

WITHIN_S = 400
"""A minute and a half where nothing else runs."""


@pytest.mark.timeout(WITHIN_S + 30)
def test_demo_faults_when_workers_are_slowed_down_then_rules_held_them_up_and_all_words_were_counted(
    tmp_path: Path,
) -> None:
    output = tmp_path / "demo"
    command = [sys.executable, "-m", "towpath.cli", "demo-faults", "--only", "word-count", "--rate", "300"]
    ended = subprocess.run(
        [*command, "--every", "10", "--delay-ms", "50", "--step", "4", "--output", str(output)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads((output / "faults.json").read_text())["word_count"]
    assert found["words_sent"] == found["words_counted"] > 0
    [staircase] = found["staircases"]
    assert [phase["slow"] for phase in staircase["phases"]] == [
        [],
        ["0"],
        ["0", "1"],
        ["0", "1", "2"],
        ["1", "2"],
        ["2"],
        [],
    ]
    assert set(staircase["delays"]) == {"slow-worker-0", "slow-worker-1", "slow-worker-2"}
    # Spark decides which worker gets a task. On a busy machine one worker may do all the work of a step.
    assert max(staircase["delays"].values()) > 0, "a worker was held up"
    batches = staircase["batches"]
    assert len(batches) > 3, "the instrumentation rule has told of micro-batches"
    assert all(
        each["total_s"] == pytest.approx(each["processing_s"] + each["scheduling_s"]) for each in batches
    )
    assert (output / "faults-word-count.png").read_bytes().startswith(b"\x89PNG")
    left = [p for p in psutil.process_iter(["cmdline"]) if str(output) in " ".join(p.info["cmdline"] or [])]
    assert not left, "the demonstration left processes behind"
