"""The course of a run, read from its journal: the curves and marks of its picture, and its report."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from towpath.lab.harness.journal import Entry, of
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.scenarios.report import RunReport

Curve = list[tuple[float, float]]
"""Seconds since the run began, and a value."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Something that happened at a moment, or lasted."""

    begin: float
    end: float | None
    text: str


@dataclass
class RunCourse:
    """A run over time."""

    title: str
    scenario: dict[str, Any]
    outcome: RunReport | None
    """None if the run did not end."""
    curves: dict[str, Curve] = field(default_factory=dict)
    """Probe → values."""
    metrics: dict[str, Curve] = field(default_factory=dict)
    """Entity and name of a metric → values."""
    phases: list[Stretch] = field(default_factory=list)
    rules: list[Stretch] = field(default_factory=list)
    migrations: list[Stretch] = field(default_factory=list)
    deviations: list[Stretch] = field(default_factory=list)
    steps: list[Stretch] = field(default_factory=list)


def course(lines: list[dict[str, Any]]) -> RunCourse:
    """Return the course of the run that wrote a journal, even if it was killed."""
    begun = next(of(lines, Entry.BEGUN), {"scenario": {}, "seed": 0})
    ended = next(of(lines, Entry.ENDED), None)
    outcome = RunReport.model_validate(ended["report"]) if ended else None
    last = lines[-1]["t"] if lines else 0.0
    title = f"{begun['scenario'].get('name', 'scenario')}, seed {begun['seed']}"
    found = RunCourse(title, begun["scenario"], outcome)
    found.curves = _curves(lines)
    found.metrics = _metrics(lines)
    found.phases = _phases(lines, last)
    found.rules = _rules(lines, last)
    found.migrations = _migrations(lines, last)
    found.deviations = _deviations(lines, last)
    found.steps = [Stretch(line["t"], None, _step(line)) for line in of(lines, Entry.STEP)]
    return found


def received(lines: list[dict[str, Any]], *jobs: str) -> list[ReceivedResult]:
    """Return the results of jobs whose results the run collected, in order of receipt."""
    came = [
        ReceivedResult(*each)
        for line in of(lines, Entry.RESULTS)
        if line["job"] in jobs
        for each in line["came"]
    ]
    return sorted(came, key=lambda result: result.received_at)


def _step(line: dict[str, Any]) -> str:
    error = f": {line['error']}" if "error" in line else ""
    return f"{line['action']} {line['what']}{error}"


def _curves(lines: list[dict[str, Any]]) -> dict[str, Curve]:
    curves: defaultdict[str, Curve] = defaultdict(list)
    for line in of(lines, Entry.SAMPLE):
        for probe, value in line["values"].items():
            curves[probe].append((line["t"], float("nan") if value is None else value))
    return dict(curves)


def _metrics(lines: list[dict[str, Any]]) -> dict[str, Curve]:
    curves: defaultdict[str, Curve] = defaultdict(list)
    for line in of(lines, Entry.METRIC):
        curves[f"{line['entity']} {line['name']}"].append((line["t"], line["value"]))
    return dict(curves)


def _phases(lines: list[dict[str, Any]], last: float) -> list[Stretch]:
    begins = [(line["t"], line["phase"]) for line in of(lines, Entry.PHASE)]
    ends = [*(at for at, _ in begins[1:]), last]
    return [Stretch(at, end, phase) for (at, phase), end in zip(begins, ends, strict=False)]


def _rules(lines: list[dict[str, Any]], last: float) -> list[Stretch]:
    marks: list[Stretch] = []
    loaded: dict[str, float] = {}
    for line in of(lines, Entry.LOADED, Entry.UNLOADED):
        for rule in line["rules"]:
            if line["kind"] == Entry.LOADED:
                loaded.setdefault(rule, line["t"])
            elif rule in loaded:
                marks.append(Stretch(loaded.pop(rule), line["t"], rule))
    return sorted([*marks, *(Stretch(at, last, rule) for rule, at in loaded.items())], key=lambda m: m.begin)


def _migrations(lines: list[dict[str, Any]], last: float) -> list[Stretch]:
    begun: dict[str, Stretch] = {}
    for line in of(lines, Entry.EVENT):
        kind, _, rest = line["subject"].partition(".")
        operation, _, what = rest.partition(".")
        body = line["body"]
        if kind != "operation" or (what == "begun" and body.get("kind") != "migrate"):
            continue
        if what == "begun":
            way = f"{body['job']}: {body.get('source')} → {body.get('target')} ({body.get('strategy')})"
            begun[operation] = Stretch(line["t"], None, way)
        elif what == "ended" and operation in begun:
            mark = begun[operation]
            state = "" if body.get("state") == "completed" else f", {body.get('state')}"
            begun[operation] = Stretch(mark.begin, line["t"], mark.text + state)
    return [Stretch(m.begin, last if m.end is None else m.end, m.text) for m in begun.values()]


def _deviations(lines: list[dict[str, Any]], last: float) -> list[Stretch]:
    marks: list[Stretch] = []
    left: dict[str, Any] | None = None
    for line in of(lines, Entry.DEVIATED, Entry.STEADY):
        if line["kind"] == Entry.DEVIATED:
            left = line
        elif left is not None:
            marks.append(Stretch(left["t"], line["t"], ", ".join(left["probes"])))
            left = None
    return marks if left is None else [*marks, Stretch(left["t"], last, ", ".join(left["probes"]))]
