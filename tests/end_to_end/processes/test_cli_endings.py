"""SIGTERM ends a command as Ctrl-C does: the command undoes its changes before it exits."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

INTERRUPTED = 130

COMMAND = """
import asyncio, os, signal, time
import typer
from towpath.cli.endings import OneLineGroup, end_on_sigterm_as_on_interrupt

app = typer.Typer(cls=OneLineGroup)


@app.command()
def awaiting() -> None:
    asyncio.run(work())


async def work() -> None:
    try:
        await told()
    finally:
        await asyncio.sleep(0)
        print("put back", flush=True)


async def told() -> None:
    print("begun", flush=True)
    await asyncio.sleep(60)


@app.command()
def blocking() -> None:
    try:
        print("begun", flush=True)
        time.sleep(60)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        print("put back", flush=True)


end_on_sigterm_as_on_interrupt()
app()
"""


def ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def usual() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("interrupt", [usual, ignored])
@pytest.mark.parametrize("command", ["awaiting", "blocking"])
def test_command_when_told_to_end_then_puts_back_what_it_changed_even_if_told_again(
    command: str, interrupt: Callable[[], None]
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interrupt,  # As a shell does to what it starts with `&`.
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.terminate()
    output, complaints = process.communicate(timeout=30)
    assert output == "put back\n"
    assert "Traceback" not in complaints
    assert process.returncode == INTERRUPTED
