"""What a drill found: one line a cell."""

from __future__ import annotations

from towpath.contracts.commands import OperationState, StrategyName
from towpath.contracts.message import Model
from towpath.lab.drill.matrix import ActorName, Cell, FaultName

RECOVERED_WITHIN_S = 30.0
"""Results must flow again so soon after the fault's end, unless something else is asked for."""


class CellReport(Model):
    """How a cell went."""

    strategy: StrategyName
    step: str
    fault: FaultName
    actor: ActorName
    job: str = ""
    """Name of the job that moved: it says which operator."""
    output_site: str = ""
    """Where its results are kept."""
    unstored: int = 0
    """Events that the server which takes them acknowledged while its disk was full, and did not store: they
    were never in the job's input, and are counted apart."""
    state: OperationState | None = None
    """How the migration ended; null when nobody knows."""
    note: str = ""
    """What the migration says of its end."""
    total_s: float | None = None
    """Of the migration."""
    steps_s: dict[str, float] = {}
    """Of each of its steps, from the journal."""
    recovery_s: float | None = None
    """From the fault's end until a result came of events that were stored after it; null if none did.
    Contains what every result waits for: trigger interval, window and watermark."""
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    out_of_order: int = 0
    seconds: float = 0.0
    """Of the whole cell."""
    reasons: list[str] = []
    """Why it is not clean; empty when it is."""

    @property
    def clean(self) -> bool:
        """Whether the migration ended well, one site owns the job, and every result came once and right."""
        return not self.reasons

    @property
    def cell(self) -> Cell:
        """Where in the matrix."""
        return Cell(self.strategy, self.step, self.fault, self.actor)


class DrillReport(Model):
    """The whole drill."""

    cells: list[CellReport] = []
    planned: int = 0
    """How many cells were to be run."""
    seconds: float = 0.0
    restarts: int = 0
    """How often the mesh had to be started anew, because a cell left it broken."""

    @property
    def clean(self) -> bool:
        """Whether every cell was run and is clean."""
        return len(self.cells) == self.planned > 0 and all(cell.clean for cell in self.cells)
