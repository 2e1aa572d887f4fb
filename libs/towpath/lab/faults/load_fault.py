"""Faults that put load on a machine, and the processes that do it: programs of `towpath.lab.faults.load`."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from abc import abstractmethod
from pathlib import Path
from random import Random
from typing import Any

from towpath.contracts.faults import TargetKind
from towpath.lab.faults.registry import HeldFault, Target

_SET_PARENT_DEATH_SIGNAL = 1
"""`PR_SET_PDEATHSIG` of prctl(2)."""

END_S = 2.0
"""For a killed process to be gone."""

_libc = ctypes.CDLL(None, use_errno=True)


class LoadChildren:
    """Processes of one program. Their parent may be killed at any line: they die with it.

    More exactly, with the thread that started them: keep them from the main thread.
    """

    def __init__(self, program: str, *arguments: str, wanted: int = 1) -> None:
        """`program` is a module of the folder `load`. It runs without any import path."""
        path = Path(__file__).parent / "load" / f"{program}.py"
        self._command = (sys.executable, "-I", "-S", str(path), *arguments)
        self._wanted = wanted
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def running(self) -> list[int]:
        """Pids of those that run."""
        return [child.pid for child in self._children if child.poll() is None]

    def keep(self) -> None:
        """Start as many as are missing."""
        self._children = [child for child in self._children if child.poll() is None]
        while len(self._children) < self._wanted:
            self._children.append(self._start())

    def end(self) -> None:
        """Kill all. Returns when they are gone."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.wait(END_S)
        self._children = []

    def _start(self) -> subprocess.Popen[bytes]:
        parent = os.getpid()

        def die_with_parent() -> None:
            _libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)  # It has died before the signal was asked for.

        return subprocess.Popen(self._command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)


class LoadFault(HeldFault):
    """Puts load on a machine with processes that die with the guard that started them."""

    applies_to = frozenset({TargetKind.MACHINE.value})

    def __init__(self, parameters: Any, random: Random) -> None:
        super().__init__(parameters, random)
        self.children: LoadChildren | None = None

    @abstractmethod
    def load(self, target: Target) -> LoadChildren:
        """Return the processes that are to run."""

    def hold(self, target: Target) -> None:
        """Start what does not run."""
        if self.children is None:
            self.children = self.load(target)
        self.children.keep()

    def release(self, target: Target) -> None:
        """End all. What an earlier guard started has died with it."""
        if self.children is not None:
            self.children.end()
