"""Execute commands that change a pipeline: follow the apply to its end, and print the outcome."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

from towpath.bus import Bus
from towpath.cli.connection import CHANGE_ATTEMPT_S, LOOK_ATTEMPT_S
from towpath.cli.output import print_json, print_table, say
from towpath.cli.pipeline_progress import ApplyProgress, changing, is_terminal, shown, what
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import StepDone
from towpath.contracts.pipeline import ApplyState, ApplyView, ChangeState
from towpath.contracts.pipeline_commands import (
    ApplyEnded,
    ApplyPipeline,
    DeletePipeline,
    JobApplied,
    RetryPipeline,
    RollbackPipeline,
    ShowPipeline,
)
from towpath.tasks import check_cancelled

DEFAULT_DEADLINE_S = 900.0
"""Time for an apply: a hundred jobs, or a few with much state."""

ACCEPT_S = 90.0
"""Time until an apply is durably accepted, or refused: user code is tried before."""

LOOK_EVERY_S = 3.0
"""Seconds between looks at an apply: the connection may have missed an event."""

Change = ApplyPipeline | RollbackPipeline | RetryPipeline | DeletePipeline


def pipeline_of(command: Change) -> str:
    """Return the pipeline that a command changes."""
    return command.spec.name if isinstance(command, ApplyPipeline) else command.pipeline


async def carry_out(bus: Bus, command: Change, *, wait: bool, within_s: float, as_json: bool) -> None:
    """Send the command, follow its apply, and print the outcome; without `wait`, print the plan.

    Raises `TowpathError` when it is refused, or does not end well. A cancellation leaves the apply running,
    and prints the command to follow it.
    """
    try:
        view = await _followed(bus, command, wait=wait, within_s=within_s, tell=not as_json)
    except asyncio.CancelledError:
        say(f"whatever was accepted goes on; `towpath pipeline show {pipeline_of(command)}` follows it")
        raise
    if as_json:
        print_json(view)
    else:
        print_outcome(view)
    if view.state is ApplyState.FAILED:
        problem = f"version {view.version} of {view.pipeline} is not complete: {view.note}"
        raise TowpathError(ErrorCode.FAILED, problem)


async def _followed(bus: Bus, command: Change, *, wait: bool, within_s: float, tell: bool) -> ApplyView:
    pipeline = pipeline_of(command)
    progress = ApplyProgress(in_lines=tell and not is_terminal())
    await bus.subscribe(JobApplied, progress.on_job, pipeline=pipeline)
    await bus.subscribe(ApplyEnded, progress.on_end, pipeline=pipeline)
    await bus.subscribe(StepDone, progress.on_step)
    accepted = command.model_copy(update={"wait": False})
    view = await bus.request(accepted, deadline_s=ACCEPT_S, attempt_s=CHANGE_ATTEMPT_S)
    progress.see(view)
    if not wait or view.state is not ApplyState.RUNNING:
        return view
    with shown(progress) if tell else nullcontext():
        return await _ended(bus, view, progress, within_s)


async def _ended(bus: Bus, view: ApplyView, progress: ApplyProgress, within_s: float) -> ApplyView:
    """Return the apply when it has ended. Raises `TowpathError` (deadline) when it takes longer."""
    try:
        async with asyncio.timeout(within_s):
            while view.state is ApplyState.RUNNING:
                await _woken(progress)
                view = await _looked_at(bus, view, progress)
                check_cancelled()
                progress.see(view)
    except TimeoutError as error:
        raise TowpathError(
            ErrorCode.DEADLINE,
            f"the apply of {view.pipeline} has not ended within {within_s:g} s and goes on "
            f"(`towpath pipeline show {view.pipeline}`)",
        ) from error
    return view


async def _woken(progress: ApplyProgress) -> None:
    """Wait until the end of the apply is announced, or it is time to look."""
    try:
        async with asyncio.timeout(LOOK_EVERY_S):
            await progress.woken.wait()
    except TimeoutError:
        return
    progress.woken.clear()


async def _looked_at(bus: Bus, view: ApplyView, progress: ApplyProgress) -> ApplyView:
    """Return the present state of the apply. A coordinator that is restarting is asked again later."""
    question = ShowPipeline(pipeline=view.pipeline)
    try:
        found = await bus.request(question, deadline_s=LOOK_ATTEMPT_S)
    except TowpathError as error:
        if error.detail.retryable:
            return view
        if error.detail.code is ErrorCode.UNKNOWN_PIPELINE:
            return _over(view, ApplyState.COMPLETED, "")
        raise
    if found.apply.apply == view.apply:
        return found.apply
    if progress.ended is not None and progress.ended.apply == view.apply:
        return _over(view, progress.ended.state, progress.ended.note)
    return _over(view, ApplyState.FAILED, "another apply has begun meanwhile")


def _over(view: ApplyView, state: ApplyState, note: str) -> ApplyView:
    """Return an apply of which only the end is known any more."""
    done = ChangeState.COMPLETED if state is ApplyState.COMPLETED else None
    changes = [c.model_copy(update={"state": done or c.state}) for c in view.changes]
    return view.model_copy(update={"state": state, "note": note, "changes": changes})


def print_outcome(view: ApplyView) -> None:
    """Print the changes of an apply, job by job."""
    touched = changing(view)
    rows = [
        (
            c.change.job,
            what(c.change),
            c.state,
            None if c.took_s is None else f"{c.took_s:.2f} s",
            None if c.error is None else c.error.one_line(),
        )
        for c in touched
    ]
    if rows:
        print_table(("job", "change", "state", "took", "error"), rows, nothing="")
    kept = len(view.changes) - len(touched)
    note = f": {view.note}" if view.note else ""
    print(f"{view.pipeline} version {view.version} {view.state}, {kept} job(s) untouched{note}")
    if view.state is ApplyState.RUNNING:
        say(f"follow it with: towpath pipeline show {view.pipeline}")
