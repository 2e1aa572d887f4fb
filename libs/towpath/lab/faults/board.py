"""Looks at the file with the rules of this process's scope, for as long as the process lives.

A thread of its own, five times a second. What carries rules out is imported once the process has started:
that takes a third of a second, too long for a first rule and for a start. After that, without any rule, a
process pays for a look at a file that is not there. The file says until when its rules count; so they
end here whatever becomes of those who wrote it.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.hooks.points import POINTS
from towpath.lab.faults.rule_set_file import RuleSetFile

if TYPE_CHECKING:
    from towpath.lab.faults.process_rules import ProcessRules

log = logging.getLogger(__name__)

FAULTS = "TOWPATH_FAULTS"
"""Environment variable: the file with the rules of a scope, named after it."""

PROCESS = "TOWPATH_PROCESS"
"""Environment variable: the name of this process, and of those it starts."""

LOOK_S = 0.2
PREPARE_AFTER_S = 5.0
"""By then a process has started, and can import what its first rule will need."""

LAST_LOOK_S = 1.0
"""For the thread, when the process ends."""


class Board:
    """The rules of one process, from the file to where they look."""

    def __init__(self, file: Path, process: str) -> None:
        self._file = RuleSetFile(file)
        self._scope, self._process = file.stem, process
        self._reports = file.parent / "reports" / file.stem
        self._rules: ProcessRules | None = None
        """None until there was a first rule."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fault rules", daemon=True)

    def start(self) -> None:
        """Look once, and from then on in a thread."""
        self.look()
        self._thread.start()

    def close(self) -> None:
        """Look no longer, and leave the process without rules."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(LAST_LOOK_S)
        if self._rules is not None:
            self._rules.apply(None)

    def _run(self) -> None:
        looks = 0
        while not self._ended.wait(LOOK_S):
            self.look()
            looks += 1
            if looks == round(PREPARE_AFTER_S / LOOK_S):
                prepare()

    def look(self) -> None:
        """Carry out what the file says now. Never raises: no rule is worth a process."""
        try:
            rules = self._file.rules()
            if rules is not None or self._rules is not None:
                self._at_work().apply(rules)
        except Exception:
            log.exception("rules could not be loaded")

    def _at_work(self) -> ProcessRules:
        if self._rules is None:
            from towpath.lab.faults.process_rules import ProcessRules

            self._rules = ProcessRules(self._scope, self._process, self._reports)
        return self._rules


def prepare() -> None:
    """Import what carries rules out, so that the first one is felt at once."""
    from towpath.lab.faults import process_rules
    from towpath.lab.faults.conditions import compile_condition
    from towpath.lab.faults.registry import faults

    with contextlib.suppress(ModuleNotFoundError):  # Each rule tells that CEL is not installed.
        _ = process_rules, faults(), compile_condition("count > 0")


_board: tuple[int, Board] | None = None
"""The process's board, and the process: a fork has the object, and not its thread."""


def watch() -> None:
    """Carry out the rules of this process from now on, if its environment says where they are.

    Cheap when it was called before, also before a fork.
    """
    global _board
    if _board is not None and _board[0] == os.getpid():
        return
    file = os.environ.get(FAULTS)
    if not file:
        return
    for point in POINTS.values():
        point.rules = ()  # A fork has those of the process it was made by.
    board = Board(Path(file), os.environ.get(PROCESS) or "unnamed")
    _board = os.getpid(), board
    board.start()
    atexit.register(_close)


def _close() -> None:
    if _board is not None and _board[0] == os.getpid():
        with contextlib.suppress(Exception):
            _board[1].close()


def begin_in_forks() -> None:
    """Have processes that this one forks `watch` from their first moment."""
    os.register_at_fork(after_in_child=watch)
