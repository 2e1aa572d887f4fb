"""A verdict for people (a table) and for programs (a JSON object)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rich.table import Table
from rich.text import Text

from towpath.checker.verdict import FAULTS, NOTICES, Verdict


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Return all counts, `clean` and the examples, in JSON types only."""
    return {"clean": verdict.clean} | {f.name: getattr(verdict, f.name) for f in fields(verdict)}


def as_table(verdict: Verdict, title: str = "Results") -> Table:
    """Return one row for each count: faults in red, with an example if there is one."""
    table = Table(title=title, caption=_caption(verdict))
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("example", overflow="fold")
    for name, count in as_json(verdict).items():
        if name in ("clean", "examples"):
            continue
        example = (verdict.examples.get(name) or [""])[0]
        style = _style(name, count)
        table.add_row(Text(name.replace("_", " ")), Text(f"{count:,}", style), Text(example, style))
    return table


def _style(name: str, count: int) -> str:
    if count == 0:
        return "green" if name in FAULTS else ""
    return "bold red" if name in FAULTS else "yellow" if name in NOTICES else ""


def _caption(verdict: Verdict) -> Text:
    if verdict.clean:
        return Text(f"all {verdict.expected:,} results came, each once and right", "green")
    found = ", ".join(f"{getattr(verdict, name):,} {name}" for name in FAULTS if getattr(verdict, name))
    return Text(f"not clean: {found}", "bold red")
