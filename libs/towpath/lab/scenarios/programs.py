"""Programs that a scenario runs beside the mesh, on demand."""

from __future__ import annotations

import asyncio

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.scenario import ProcessRun


async def run_program(run: ProcessRun) -> None:
    """Run a program to its end. Raises `TowpathError` when it cannot, fails, or takes too long."""
    try:
        program = await asyncio.create_subprocess_exec(
            run.path,
            *run.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise TowpathError(
            ErrorCode.FAILED, f"cannot be run: {error}", field="process.path", value=run.path
        ) from error
    try:
        _, said = await asyncio.wait_for(program.communicate(), run.timeout_s)
    except TimeoutError as error:
        raise TowpathError(
            ErrorCode.DEADLINE,
            f"did not end within {run.timeout_s:g} s",
            field="process.path",
            value=run.path,
        ) from error
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    if program.returncode:
        last = "".join(said.decode(errors="replace").strip().splitlines()[-1:])
        why = f"ended with code {program.returncode}" + (f": {last}" if last else "")
        raise TowpathError(ErrorCode.FAILED, why, field="process.path", value=run.path)
