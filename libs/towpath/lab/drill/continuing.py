"""Go on with a drill that was stopped: its report has the cells that were played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import ValidationError

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.drill.matrix import Cell, Conditions
from towpath.lab.scenarios.campaign_report import CampaignReport


def earlier(path: Path, conditions: Conditions) -> CampaignReport:
    """Return the report of all cells that were played before; an empty one if there is none at `path`.

    Raises `TowpathError` if it is no such report, or its cells were played under other conditions.
    """
    try:
        found = CampaignReport.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return CampaignReport()
    except ValidationError as error:
        raise TowpathError(
            ErrorCode.INVALID,
            "this is no report of a drill",
            field="json",
            value=str(path),
            allowed="a report that `towpath drill --json` has written, or a new file",
        ) from error
    for name, value in asdict(conditions).items():
        if (was := found.conditions.get(name, value)) != value:
            raise TowpathError(
                ErrorCode.INVALID,
                "the earlier cells were played under another condition",
                field=name,
                value=str(value),
                allowed=f"{was}, or a new report",
            )
    return found


def begun(cells: Sequence[Cell], seed: int, conditions: Conditions, before: CampaignReport) -> CampaignReport:
    """Return the report of these cells alone, with those of them that were played before."""
    asked = {cell.scenario for cell in cells}
    runs = [run for run in before.runs if run.scenario in asked]
    now = {"seed": seed, "planned": len(cells), "runs": runs, "conditions": asdict(conditions)}
    return before.model_copy(update=now)


def joined(report: CampaignReport, before: CampaignReport) -> CampaignReport:
    """Return a report with the cells that were played before, and are not asked for now."""
    asked = {run.scenario for run in report.runs}
    others = [run for run in before.runs if run.scenario not in asked]
    return report.model_copy(
        update={"planned": report.planned + len(others), "runs": [*others, *report.runs]}
    )


def left(cells: Sequence[Cell], report: CampaignReport) -> list[Cell]:
    """Return the cells that the report does not have."""
    played = {run.scenario for run in report.runs}
    return [cell for cell in cells if cell.scenario not in played]
