"""Try user code in a disposable process, before an engine that runs other jobs imports it.

Code that exits, hangs or takes all memory at import does so in that process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from pathlib import Path

from towpath.artefacts import entry_trial
from towpath.confined import confined
from towpath.contracts.errors import ErrorCode, TowpathError

FIELD = "operator.entry"

WITHIN_S = 15.0
"""Time for the trial. Importing PySpark and pandas takes one second, and several on a machine under load."""

MEMORY_BYTES = 2 * 1024**3
"""Address space of the trial. PySpark with pandas and Arrow takes 0.4 GiB."""

VERDICT_BYTES = 64 * 1024

ALLOWED = (
    "module:function that takes a DataFrame and the parameters, and returns a DataFrame "
    "with serial, input and stored_at, or with the columns of identity"
)


async def check_entry(
    archive: Path | None,
    entry: str,
    *,
    reads: Sequence[Path] = (),
    within_s: float = WITHIN_S,
    memory_bytes: int = MEMORY_BYTES,
) -> None:
    """Raise `TowpathError` (invalid) if `entry` of `archive` does not import or cannot be called.

    The error has the exception of the user's code and its line. `archive` is None for code in the
    interpreter's environment. The process gets none of this process's environment variables, and can open the
    code, `reads`, and what Python needs; see `towpath.confined`.
    """
    with tempfile.TemporaryDirectory(prefix="towpath-trial-") as scratch:
        trial = (sys.executable, "-I", "-B", entry_trial.__file__, str(archive or ""), entry)
        limits = (str(memory_bytes), str(max(1, round(within_s))))
        code = [] if archive is None else [archive]
        process = await asyncio.create_subprocess_exec(
            *confined((*trial, *limits), reads=[*code, *reads], writes=[Path(scratch)]),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd=scratch,
            env=_environment(scratch),
            start_new_session=True,
        )
        problem = await _verdict(process, within_s)
    if problem is not None:
        raise TowpathError(ErrorCode.INVALID, problem, field=FIELD, value=entry, allowed=ALLOWED)


async def _verdict(process: Process, within_s: float) -> str | None:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(within_s):
            said = await process.stdout.read(VERDICT_BYTES)
            if not said:
                return _ended(await process.wait(), within_s)
    except TimeoutError:
        return _too_long(within_s)
    finally:
        # End the whole group, because processes that the code started must not outlive it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    try:
        problem = json.loads(said)["problem"]
    except (ValueError, KeyError, TypeError):
        return "does not import: it wrote to files that are not its own"
    return None if problem is None else str(problem)


def _ended(code: int, within_s: float) -> str:
    if -code in (signal.SIGALRM, signal.SIGXCPU):
        return _too_long(within_s)
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return f"does not import: it ended its process {how}"


def _too_long(within_s: float) -> str:
    return f"does not import within {within_s:g} s"


def _environment(scratch: str) -> dict[str, str]:
    """Return an environment without credentials and settings, with what a program needs to run."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": scratch,
        "TMPDIR": scratch,
        "LANG": "C.UTF-8",
        "OPENBLAS_NUM_THREADS": "1",  # Each thread takes address space, which is limited.
        "OMP_NUM_THREADS": "1",
    }
