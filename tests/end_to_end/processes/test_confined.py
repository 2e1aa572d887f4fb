"""A command runs with the files that it is given, and reaches no other process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from towpath.confined import confined, is_supported

pytestmark = pytest.mark.skipif(not is_supported(), reason="this kernel has no Landlock")

TRIES = """
import json, os, subprocess, sys
from pathlib import Path

def outcome(attempt):
    try:
        return str(attempt())
    except OSError as error:
        return type(error).__name__

given, kept, parent = Path(sys.argv[1]), Path(sys.argv[2]), os.getppid()
print(json.dumps({
    "write": outcome(lambda: (given / "new").write_text("x")),
    "rename": outcome(lambda: (given / "new").rename(given / "newer")),
    "child": outcome(lambda: subprocess.run(["true"]).returncode),
    "thread": outcome(lambda: __import__("threading").active_count()),
    "read": outcome(lambda: kept.read_text()),
    "link": outcome(lambda: os.link(kept, given / "linked")),
    "symbolic link": outcome(lambda: (given / "pointer").symlink_to(kept)),
    "delete": outcome(lambda: kept.unlink()),
    "child reads": outcome(lambda: subprocess.run(["cat", str(kept)], capture_output=True).stdout),
    "list": outcome(lambda: os.listdir(kept.parent)),
    "environment": outcome(lambda: Path(f"/proc/{parent}/environ").read_bytes()),
    "memory": outcome(lambda: Path(f"/proc/{parent}/mem").open("rb")),
    "signal": outcome(lambda: os.kill(parent, 0)),
}))
"""

ALLOWED = {"write": "1", "child": "0", "thread": "1"}


def test_command_when_it_is_started_above_the_secret_then_cannot_read_it(tmp_path: Path) -> None:
    """`python -m` looks for modules where it was started. That may be a home directory, or `/`."""
    kept = tmp_path / "mesh.json"
    kept.write_text("secret")
    program = (
        "import subprocess; from towpath.confined import confined; "
        f"command = confined(['cat', {str(kept)!r}], reads=[], writes=[]); "
        "print(subprocess.run(command, capture_output=True).stdout)"
    )
    (tmp_path / "started.py").write_text(program)

    ended = subprocess.run(
        [sys.executable, "-m", "started"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert ended.stdout == "b''\n"


@pytest.fixture
def tried(tmp_path: Path) -> dict[str, Any]:
    given, kept = tmp_path / "given", tmp_path / "kept" / "mesh.json"
    given.mkdir()
    kept.parent.mkdir()
    kept.write_text("secret")
    command = confined(
        [sys.executable, "-c", TRIES, str(given), str(kept)], reads=[tmp_path / "absent"], writes=[given]
    )
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert kept.read_text() == "secret"
    return json.loads(ended.stdout)


def test_command_when_confined_then_uses_what_it_is_given(tried: dict[str, Any], tmp_path: Path) -> None:
    assert {name: tried[name] for name in ALLOWED} == ALLOWED
    assert tried["rename"] == str(tmp_path / "given" / "newer")


def test_command_when_confined_then_opens_nothing_else_and_reaches_no_process(tried: dict[str, Any]) -> None:
    refused = {name: outcome for name, outcome in tried.items() if name not in (*ALLOWED, "rename")}

    assert refused.pop("child reads") == "b''"
    assert refused.pop("link") == "OSError"  # As if it were on another disk.
    assert set(refused.values()) == {"PermissionError"}, refused
