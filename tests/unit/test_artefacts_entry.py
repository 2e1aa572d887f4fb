"""User code is tried in a process of its own: failures at import stay there, and the refusal names them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from running.waiting import eventually
from towpath.agent.artefacts import SiteArtefacts
from towpath.artefacts.archive import pack
from towpath.artefacts.entry_check import check_entry
from towpath.artefacts.shelf import Shelf
from towpath.confined import is_supported
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site_commands import TryCode

IMPORT_S = 60.0
"""Longer than code takes to import on a busy machine."""

GOOD = "def run(events, parameters):\n    return events\n"


def archive(directory: Path, code: str) -> Path:
    folder = directory / "code"
    folder.mkdir(parents=True)
    (folder / "tried.py").write_text(code)
    path = directory / "code.zip"
    path.write_bytes(pack(folder, directory))
    return path


async def problem(directory: Path, code: str, entry: str = "tried:run", **limits: float | int) -> str:
    with pytest.raises(TowpathError) as refused:
        await check_entry(archive(directory, code), entry, **{"within_s": IMPORT_S, **limits})  # type: ignore[arg-type]
    detail = refused.value.detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.INVALID, "operator.entry", entry)
    return detail.message


async def test_entry_when_it_takes_events_and_parameters_then_nothing_is_said(tmp_path: Path) -> None:
    await check_entry(archive(tmp_path, GOOD), "tried:run", within_s=IMPORT_S)


async def test_entry_when_it_imports_spark_and_pandas_then_the_limits_are_wide_enough(tmp_path: Path) -> None:
    imports = "import pandas, pyarrow\nfrom pyspark.sql import DataFrame, functions\n"
    await check_entry(archive(tmp_path, imports + GOOD), "tried:run", within_s=IMPORT_S)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("X = {}\n\ndef read():\n    return X['key']\n\nread()\n", "KeyError: 'key' (line 4 of tried.py:"),
        ("import nowhere_to_be_found\n", "No module named 'nowhere_to_be_found' (line 1 of tried.py"),
        ("def run(:\n", "SyntaxError: invalid syntax (tried.py, line 1)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 (line 2 of tried.py: sys.exit(3))"),
        ("import os\nos._exit(4)\n", "ended its process with exit code 4"),
        ("import os\nos.kill(os.getpid(), 11)\n", "ended its process by signal 11"),
        ("everything = bytearray(10**12)\n", "MemoryError (line 1 of tried.py"),
        ("raise BaseException('odd')\n", "BaseException: odd"),
    ],
    ids=["exception", "missing", "syntax", "exit", "hard exit", "signal", "memory", "base exception"],
)
async def test_import_when_it_fails_then_the_refusal_has_the_exception_and_its_line(
    tmp_path: Path, code: str, said: str
) -> None:
    assert said in await problem(tmp_path, code)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("tried:missing", "has no function 'missing'"),
        ("tried:NUMBER", "'NUMBER' is of type int, which cannot be called"),
        ("tried:one", "cannot be called with a DataFrame and the parameters: too many positional arguments"),
        ("tried:three", "missing a required argument: 'c'"),
        ("untried:run", "No module named 'untried'"),
    ],
)
async def test_entry_when_it_cannot_be_called_so_then_the_refusal_says_why(
    tmp_path: Path, entry: str, said: str
) -> None:
    code = "NUMBER = 5\ndef one(a): ...\ndef three(a, b, c): ...\n"
    assert said in await problem(tmp_path, code, entry)


@pytest.mark.parametrize("code", ["while True:\n    pass\n", "import time\ntime.sleep(1000)\n"])
async def test_import_when_it_does_not_end_then_it_is_ended(tmp_path: Path, code: str) -> None:
    assert await problem(tmp_path, code, within_s=1.0) == "does not import within 1 s"


async def test_memory_when_it_is_taken_bit_by_bit_then_there_is_an_end_to_it(tmp_path: Path) -> None:
    code = "kept = []\nwhile True:\n    kept.append(bytearray(2**20))\n"
    said = await problem(tmp_path, code, memory_bytes=256 * 2**20)
    assert "MemoryError" in said


async def test_process_when_its_code_started_others_then_none_is_left(tmp_path: Path) -> None:
    mark = str(8_000_000 + os.getpid())
    code = f"import subprocess\nsubprocess.Popen(['sleep', '{mark}'])\n{GOOD}"
    await check_entry(archive(tmp_path, code), "tried:run", within_s=IMPORT_S)
    left = [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", mark]]
    await eventually(lambda: all(not p.is_running() or p.status() == psutil.STATUS_ZOMBIE for p in left))


async def test_environment_when_code_looks_at_it_then_nothing_of_ours_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_HOME", "/somewhere")
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    code = "import os\nraise RuntimeError(sorted(set(os.environ) - {'LC_CTYPE'}))\n"
    said = await problem(tmp_path, code)
    expected = ["HOME", "LANG", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH", "TMPDIR"]
    assert f"RuntimeError: {expected}" in said


async def test_verdict_when_code_prints_then_it_is_not_taken_for_one(tmp_path: Path) -> None:
    code = "import os\nprint('{\"problem\": null}', flush=True)\nos.write(1, b'x')\nraise ValueError('no')\n"
    assert "ValueError: no" in await problem(tmp_path, code)


async def test_trial_when_it_is_cancelled_then_its_process_ends(tmp_path: Path) -> None:
    mark = str(9_000_000 + os.getpid())
    code = f"import subprocess\nsubprocess.run(['sleep', '{mark}'])\n"

    def running() -> list[psutil.Process]:
        return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", mark]]

    trial = asyncio.create_task(check_entry(archive(tmp_path, code), "tried:run", within_s=IMPORT_S))
    (sleeping,) = await eventually(running)
    importing = sleeping.ppid()
    trial.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trial
    assert not psutil.pid_exists(importing)


async def test_code_when_it_looks_around_then_opens_its_own_files_only(tmp_path: Path) -> None:
    (tmp_path / "mesh.json").write_text("{}")
    code = f"open({str(tmp_path / 'mesh.json')!r})\n"
    assert is_supported() == ("PermissionError" in await problem(tmp_path, code))


async def test_site_when_asked_to_try_installed_code_then_says_what_its_environment_lacks(
    tmp_path: Path,
) -> None:
    site = SiteArtefacts(cast("Any", None), Shelf(tmp_path))
    await site.try_code(TryCode(site="jfk", operation="p1", entry="operator:add"))
    with pytest.raises(TowpathError, match="does not import"):
        await site.try_code(TryCode(site="jfk", operation="p1", entry="nosuch.module:run"))
