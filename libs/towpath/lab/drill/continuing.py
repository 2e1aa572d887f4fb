"""Go on with a drill that was stopped: its report has the cells that were played."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.drill.matrix import Cell
from towpath.lab.scenarios.campaign_report import CampaignReport


def earlier(path: Path, cells: Sequence[Cell], seed: int) -> CampaignReport:
    """Return the report of the cells that were played before; an empty one if there is none at `path`.

    Cells that are not asked for any more are left out. Raises `TowpathError` if it is no such report.
    """
    try:
        found = CampaignReport.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        found = CampaignReport()
    except ValidationError as error:
        raise TowpathError(
            ErrorCode.INVALID,
            "this is no report of a drill",
            field="json",
            value=str(path),
            allowed="a report that `towpath drill --json` has written, or a new file",
        ) from error
    asked = {cell.scenario for cell in cells}
    runs = [run for run in found.runs if run.scenario in asked]
    return found.model_copy(update={"seed": seed, "planned": len(cells), "runs": runs})


def left(cells: Sequence[Cell], report: CampaignReport) -> list[Cell]:
    """Return the cells that the report does not have."""
    played = {run.scenario for run in report.runs}
    return [cell for cell in cells if cell.scenario not in played]
