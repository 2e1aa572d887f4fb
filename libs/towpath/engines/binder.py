"""The interface between a site and its engine: what an agent must know to run one.

A new engine is one new file with a class of this shape, one line in `binders.py` and one in `EngineKind`. Its
process serves the commands of `towpath.contracts.engine`; `towpath.engines.commands` does that for any class
of the shape `Engine`. `docs/extending/engine.md` adds one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from towpath.contracts.site import EngineSpec

if TYPE_CHECKING:  # It needs packages that commands without an engine do not have.
    from towpath.engines.checkpoint_format import CheckpointFormat


JOB_WAITS = "TOWPATH_JOB_WAITS"
"""Variable in the environment of an engine that starts for a job that waits for it. Such an engine leaves out
what would only make later jobs faster."""


class EngineBinder(Protocol):
    """One kind of engine, as agents and `towpath up` use it."""

    @property
    def agent_packages(self) -> Sequence[str]:
        """Python packages that an agent needs to read this engine's checkpoints."""
        ...

    @property
    def engine_packages(self) -> Sequence[str]:
        """Python packages that the engine's process needs."""
        ...

    def check_machine(self) -> None:
        """Look for everything else that the engine's process needs on this machine. Blocks.

        Raises `TowpathError` that says what is missing, and what installs it.
        """
        ...

    def machine_files(self) -> Sequence[Path]:
        """Return directories of the machine, beside the usual and Python's, that the process reads."""
        ...

    def command(self, setup: Path) -> Sequence[str]:
        """Return the command that starts an engine. `setup` is the file with an `EngineSetup` for it."""
        ...

    def ready_s(self, spec: EngineSpec) -> float:
        """Return the time until the process must answer commands. Then it counts as failed."""
        ...

    @property
    def checkpoints(self) -> CheckpointFormat:
        """The format of its checkpoints, loaded at the first access: it may need `agent_packages`."""
        ...
