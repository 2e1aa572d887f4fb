"""Import user code in a disposable process, and say whether its entry can be called.

`python -I entry_trial.py ARCHIVE ENTRY MEMORY_BYTES SECONDS`, where ARCHIVE may be empty. It needs only
the standard library. It prints one JSON object: `{"problem": null}`, or the problem as text.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import inspect
import json
import os
import resource
import signal
import sys
import traceback
from typing import Any

DIE_WITH_PARENT = 1
"""`PR_SET_PDEATHSIG` of Linux's prctl."""

MESSAGE_CHARACTERS = 600


def problem_of(archive: str, entry: str) -> str | None:
    """Return the problem of an entry. None if it can be called with a frame and parameters."""
    module_name, _, function_name = entry.partition(":")
    try:
        module = importlib.import_module(module_name)
    except BaseException as error:  # Also SystemExit and anything else that code may raise at import.
        return f"does not import: {_told(error, archive)}"
    function = getattr(module, function_name, None)
    if function is None:
        return f"module {module_name!r} has no function {function_name!r}"
    if not callable(function):
        return f"{function_name!r} is of type {type(function).__name__}, which cannot be called"
    return _mismatch(function)


def _mismatch(function: Any) -> str | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None  # Some compiled functions do not declare their parameters.
    try:
        signature.bind("frame", "parameters")
    except TypeError as error:
        return f"cannot be called with a DataFrame and the parameters: {error}; it takes {signature}"
    return None


def _told(error: BaseException, archive: str) -> str:
    """Return the exception and the line of the user's code that raised it."""
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    if isinstance(error, SyntaxError):
        return text[:MESSAGE_CHARACTERS]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if archive and frame.filename.startswith(archive)]
    if own:
        place = own[-1].filename.removeprefix(archive).lstrip("/")
        text = f"{text} (line {own[-1].lineno} of {place}: {own[-1].line})"
    return text[:MESSAGE_CHARACTERS]


def _confine(memory_bytes: int, seconds: int) -> None:
    for limit, soft, hard in (
        (resource.RLIMIT_AS, memory_bytes, memory_bytes),
        # The soft limit's signal tells the reason. The hard limit's could come from anywhere.
        (resource.RLIMIT_CPU, seconds, seconds + 1),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        resource.setrlimit(limit, (soft, hard))
    signal.alarm(seconds)
    with contextlib.suppress(OSError, AttributeError):  # Only Linux has it.
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


def main() -> None:
    """Try the entry that the arguments name. End all processes that it left running."""
    archive, entry, memory_bytes, seconds = sys.argv[1:]
    verdict = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    _confine(int(memory_bytes), int(seconds))
    if archive:
        sys.path.insert(0, archive)
    problem = problem_of(archive, entry)
    os.write(verdict, json.dumps({"problem": problem}).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
