"""Results of a benchmark: cases with figures, targets beside them, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

Value = float | int | str | None


@dataclass(frozen=True)
class Target:
    """A limit for a figure: exactly one of the two."""

    at_least: float | None = None
    at_most: float | None = None
    was: str | None = None
    """The figure before events were typed outside the plan, to stand beside it."""

    def met(self, value: Value) -> bool:
        """True if a figure reaches it. A figure that is missing, or is no number, does not."""
        if not isinstance(value, int | float):
            return False
        if self.at_least is not None:
            return value >= self.at_least
        return self.at_most is not None and value <= self.at_most

    def __str__(self) -> str:
        limit, sign = (self.at_least, "≥") if self.at_least is not None else (self.at_most, "≤")
        return f"{sign} {_number(limit)}"


@dataclass(frozen=True)
class Case:
    """One row: a load, a direction, a setting."""

    name: str
    figures: Mapping[str, Value]
    """Column title, unit included → figure."""
    targets: Mapping[str, Target] = field(default_factory=dict)
    faults: int = 0
    """Events or results lost, repeated or wrong: never acceptable, whatever the targets."""


@dataclass
class Measured:
    """Results of one benchmark."""

    benchmark: str
    title: str
    cases: list[Case] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Notes on how figures were measured, where titles do not say it."""
    seconds: float = 0.0
    load_before: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The machine's load averages when the benchmark began."""
    error: str | None = None
    """Reason why it is not complete."""
    upright: bool = False
    """True if the table shows cases as columns: for few cases with many figures."""
    raw: dict[str, Any] = field(default_factory=dict)
    """Raw data behind the figures, for the JSON."""
    pictures: dict[str, Callable[[Path], None]] = field(default_factory=dict)
    """Name of a picture → function that draws it into a PNG file, after all measurements."""

    @property
    def sound(self) -> bool:
        """True if it is complete and nothing was lost, repeated or wrong."""
        return self.error is None and not any(case.faults for case in self.cases)

    def verdicts(self) -> Iterator[tuple[str, str, Value, Target, bool]]:
        """Yield (case, figure, value, target, met) for every target."""
        for case in self.cases:
            for title, target in case.targets.items():
                value = case.figures.get(title)
                yield case.name, title, value, target, target.met(value)

    def table(self) -> Table:
        """Return the table for people."""
        titles = list(dict.fromkeys(title for case in self.cases for title in case.figures))
        cells = [[_cell(case, title) for title in titles] for case in self.cases]
        columns, rows = titles, [case.name for case in self.cases]
        if self.upright:
            columns, rows, cells = rows, titles, [list(row) for row in zip(*cells, strict=True)]
        table = Table("", title=f"{self.benchmark}: {self.title}", title_justify="left", box=None)
        for column in columns:
            table.add_column(column, justify="right")
        for row, line in zip(rows, cells, strict=True):
            table.add_row(row, *line)
        return table

    def remarks(self) -> list[str]:
        """Return the lines to print below the table."""
        return [*self.notes, *([f"NOT COMPLETE: {self.error}"] if self.error else [])]

    def to_json(self) -> dict[str, Any]:
        """Return everything for programs."""
        return {
            "benchmark": self.benchmark,
            "title": self.title,
            "seconds": round(self.seconds, 1),
            "load_before": self.load_before,
            "sound": self.sound,
            "error": self.error,
            "notes": self.notes,
            "cases": [
                {"case": case.name, "faults": case.faults, "figures": dict(case.figures)}
                for case in self.cases
            ],
            "targets": [
                {
                    "case": case,
                    "figure": title,
                    "value": value,
                    "target": str(target),
                    "met": met,
                    "was": target.was,
                }
                for case, title, value, target, met in self.verdicts()
            ],
            **({"raw": self.raw} if self.raw else {}),
        }


def _cell(case: Case, title: str) -> str:
    value = case.figures.get(title)
    text = "–" if value is None else value if isinstance(value, str) else _number(value)
    target = case.targets.get(title)
    if target is None:
        return text
    verdict = "[green]met[/green]" if target.met(value) else "[red]not met[/red]"
    before = "" if target.was is None else f"; was {target.was}"
    return f"{text} ({target} {verdict}{before})"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) or abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


def rounded(value: float | None, digits: int = 3) -> float | None:
    """Return a figure rounded to `digits` significant digits."""
    return None if value is None else round(float(value), digits)
