"""Show an apply under way: its jobs in order, each with its change and its progress."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from towpath.cli.output import say, table_of
from towpath.contracts.events import StepDone
from towpath.contracts.pipeline import Action, ApplyView, ChangeState, ChangeView, PlannedChange
from towpath.contracts.pipeline_commands import ApplyEnded, JobApplied

STYLES = {
    ChangeState.WAITING: "dim",
    ChangeState.RUNNING: "bold cyan",
    ChangeState.COMPLETED: "green",
    ChangeState.FAILED: "bold red",
    ChangeState.SKIPPED: "yellow",
}

REFRESH_PER_S = 5


class ApplyProgress:
    """An apply as far as events and views have told. Events may come before the first view."""

    def __init__(self, *, in_lines: bool) -> None:
        self.woken = asyncio.Event()
        """Set when the end of the apply is announced."""
        self.ended: ApplyEnded | None = None
        self._in_lines = in_lines
        self._view: ApplyView | None = None
        self._early: list[JobApplied] = []
        self._states: dict[str, ChangeState] = {}
        self._steps: dict[str, str] = {}

    def see(self, view: ApplyView) -> None:
        """Take over a view of the apply."""
        self._view = view
        for change in changing(view):
            self._set(change.change, change.state)
        for event in self._early:
            self._note(view, event)
        self._early.clear()

    async def on_job(self, event: JobApplied) -> None:
        """Note that the change of a job began or ended."""
        if self._view is None:
            self._early.append(event)
        else:
            self._note(self._view, event)

    async def on_step(self, event: StepDone) -> None:
        """Note a step of an operation on a job."""
        self._steps[event.job] = f"{event.step} {event.phase}"

    async def on_end(self, event: ApplyEnded) -> None:
        """Note that the apply has ended."""
        self.ended = event
        self.woken.set()

    def render(self) -> Table:
        """Return a table of the jobs that change, in their order."""
        table = table_of(("job", "change", "after", "state", "step"), title_justify="left")
        view = self._view
        if view is None:
            return table
        done = sum(state is ChangeState.COMPLETED for state in self._states.values())
        table.title = f"{view.pipeline} version {view.version}: {done} of {len(self._states)} changes done"
        for each in changing(view):
            change, state = each.change, self._states[each.change.job]
            step = self._steps.get(change.job, "") if state is ChangeState.RUNNING else ""
            row = [change.job, what(change), ", ".join(change.after), state.value, step]
            table.add_row(*(escape(cell) for cell in row), style=STYLES[state])
        return table

    def _note(self, view: ApplyView, event: JobApplied) -> None:
        found = [c.change for c in changing(view) if c.change.job == event.job]
        if event.apply == view.apply and found:
            self._set(found[0], event.state)

    def _set(self, change: PlannedChange, state: ChangeState) -> None:
        former = self._states.get(change.job)
        self._states[change.job] = state
        if self._in_lines and state not in (former, ChangeState.WAITING):
            say(f"{change.job}: {what(change)} {state}")


def changing(view: ApplyView) -> list[ChangeView]:
    """Return the changes that touch their job."""
    return [each for each in view.changes if each.change.actions != [Action.KEEP]]


def what(change: PlannedChange) -> str:
    """Return the change of a job in a few words."""
    route = f" {change.source} → {change.target}" if Action.MOVE in change.actions else ""
    return ", ".join(change.actions) + route


def is_terminal() -> bool:
    """Tell if people watch the progress on a terminal."""
    return sys.stderr.isatty()


@contextmanager
def shown(progress: ApplyProgress) -> Iterator[None]:
    """Show the progress on stderr, in place on a terminal, or else line by line."""
    if not is_terminal():
        yield
        return
    console = Console(file=sys.stderr, highlight=False)
    with Live(get_renderable=progress.render, console=console, refresh_per_second=REFRESH_PER_S):
        yield
