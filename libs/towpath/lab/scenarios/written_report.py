"""`report.md` and `run.png`, made from a journal alone: also again later, also of a run that was killed."""

from __future__ import annotations

from pathlib import Path

from towpath.contracts.scenario import Scenario
from towpath.lab.harness.journal import read_journal
from towpath.lab.harness.report import FINDINGS
from towpath.lab.scenarios.course import RunCourse, course
from towpath.lab.scenarios.picture import draw
from towpath.lab.scenarios.probes import title, tolerance
from towpath.lab.scenarios.report import RunReport

REPORT, PICTURE = "report.md", "run.png"


def write_report(directory: Path) -> Path:
    """Write report and picture beside a journal; where the report is. Raises `TowpathError`."""
    run = course(read_journal(directory))
    draw(directory / PICTURE, run)
    path = directory / REPORT
    path.write_text(markdown(run), encoding="utf-8")
    return path


def recorded_report(directory: Path) -> RunReport | None:
    """The report in a journal; null if the run did not come to its end. Raises `TowpathError`."""
    found = course(read_journal(directory)).report
    return RunReport.model_validate(found) if found else None


def markdown(run: RunCourse) -> str:
    """The report as people read it."""
    parts = [f"# {run.title}", "", run.scenario.get("description", "").strip(), ""]
    if not run.report:
        return "\n".join([*parts, "The run did not end: its journal stops.", "", f"![run]({PICTURE})", ""])
    report = RunReport.model_validate(run.report)
    parts += _outcome(report)
    parts += [f"![throughput, gap and lag over time]({PICTURE})", ""]
    parts += _steady_state(run, report)
    parts += _timeline(run)
    parts += _rules(report)
    parts += _migrations(report)
    parts += _energy(report)
    parts += _verdicts(report)
    return "\n".join(parts)


def _outcome(report: RunReport) -> list[str]:
    if report.passed:
        assert report.recovered_s is not None
        lines = [f"**As expected.** Steady state held again {report.recovered_s:g} s after the last fault."]
    else:
        lines = ["**Not as expected:**", "", *(f"- {problem}" for problem in report.problems)]
    if report.chosen:
        chosen = ", ".join(f"`{path}` = {value}" for path, value in report.chosen.items())
        lines += ["", f"Seed {report.seed} chose {chosen}."]
    return [*lines, "", f"Took {report.seconds:g} s. Again: `{report.again}`", ""]


def _steady_state(run: RunCourse, report: RunReport) -> list[str]:
    scenario = Scenario.model_validate(run.scenario)
    lines = ["## Steady state", "", "| probe | tolerance | looks outside |", "|---|---|---|"]
    for probe in scenario.steady_state:
        lines.append(f"| {title(probe)} | {tolerance(probe)} | {report.deviated.get(title(probe), 0)} |")
    return [*lines, "", f"Steady state was left for {report.deviation_s:g} s all together.", ""]


def _timeline(run: RunCourse) -> list[str]:
    lines = ["## What happened", "", "| from, s | to, s | what |", "|---|---|---|"]
    marks = [(m, "phase") for m in run.phases] + [(m, "rule") for m in run.rules]
    marks += [(m, "migration") for m in run.migrations] + [(m, "left steady state:") for m in run.deviations]
    for mark, kind in sorted(marks, key=lambda entry: entry[0].begin):
        end = "" if mark.end is None else f"{mark.end:.1f}"
        lines.append(f"| {mark.begin:.1f} | {end} | {kind} {mark.text} |")
    return [*lines, ""]


def _rules(report: RunReport) -> list[str]:
    if not report.rules:
        return []
    lines = [
        "## Rules",
        "",
        "| rule | event | faults | looked | acted | errors |",
        "|---|---|---|---|---|---|",
    ]
    for rule in report.rules:
        faults = ", ".join(rule.faults)
        lines.append(
            f"| {rule.rule} | {rule.event} | {faults} | {rule.looked} | {rule.acted} | {rule.errors} |"
        )
    return [*lines, ""]


def _migrations(report: RunReport) -> list[str]:
    if not report.migrations:
        return []
    lines = ["## Migrations", "", "| job | way | strategy | ended | total, s |", "|---|---|---|---|---|"]
    for move in report.migrations:
        total = "–" if move.total_s is None else f"{move.total_s:g}"
        way = f"{move.source} → {move.target}"
        lines.append(f"| {move.job} | {way} | {move.strategy} | {move.state or 'unknown'} | {total} |")
    return [*lines, ""]


def _energy(report: RunReport) -> list[str]:
    if not report.energy:
        return []
    columns = "| node | energy, J | mean power, W | busy, % | up, s |"
    lines = ["## Energy", "", columns, "|---|---|---|---|---|"]
    for name, node in report.energy.items():
        busy = f"{100 * node.utilisation:.0f}"
        lines.append(f"| {name} | {node.energy_j:.0f} | {node.mean_w:.1f} | {busy} | {node.up_s:.0f} |")
    return [*lines, f"| together | {report.energy_j:.0f} | | | |", ""]


def _verdicts(report: RunReport) -> list[str]:
    if not report.verdicts:
        return ["No results were judged.", ""]
    names = ("expected", "results", *FINDINGS, "redelivered")
    lines = ["## The checker's verdict", "", f"| job | {' | '.join(names).replace('_', ' ')} |"]
    lines.append("|---" * (len(names) + 1) + "|")
    for job, verdict in report.verdicts.items():
        lines.append(f"| {job} | {' | '.join(str(getattr(verdict, name)) for name in names)} |")
    return [*lines, ""]
