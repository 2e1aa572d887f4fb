"""Report a run: what was injected when, what the probes showed, what the checker found.

Everything comes from the run's journal, so a killed run can be reported, and an old one again. The HTML file
and `report.md` have the same sections.
"""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree.ElementTree import Element

import matplotlib.pyplot as plt

from towpath.contracts.message import now
from towpath.contracts.scenario import Scenario
from towpath.lab.harness.journal import FILE, read_journal
from towpath.lab.harness.markdown import markdown
from towpath.lab.harness.report import FINDINGS, in_words
from towpath.lab.scenarios.course import Curve, RunCourse, course
from towpath.lab.scenarios.picture import draw, figure_of
from towpath.lab.scenarios.probes import title, tolerance
from towpath.lab.scenarios.report import RunReport
from towpath.reports.costs import seconds
from towpath.reports.curves import number
from towpath.reports.drawing import STYLE, illustration
from towpath.reports.markup import element, listed, paragraph, section, table
from towpath.reports.page import page

REPORT, PICTURE = "report.md", "run.png"


def found_run_page(about: str) -> tuple[Path, str] | None:
    """Return the directory of a scenario's run and its page. None if there is none.

    The directory is `about`, or where `towpath scenario run NAME` puts it. Raises `TowpathError`.
    """
    candidates = (Path(about), Path(f"scenario-{about}"))
    directory = next((place for place in candidates if (place / FILE).is_file()), None)
    return None if directory is None else (directory, run_page(directory))


def run_page(directory: Path) -> str:
    """Return the HTML page on the run whose journal is in a directory. Raises `TowpathError`."""
    run = course(read_journal(directory))
    return page(_title(run), _lead(run), _sections(run, _drawing(run)), made_at=now())


def write_report(directory: Path) -> Path:
    """Write `report.md` and `run.png` beside a journal; return the report's path. Raises `TowpathError`."""
    run = course(read_journal(directory))
    draw(directory / PICTURE, run)
    path = directory / REPORT
    path.write_text(run_markdown(run), encoding="utf-8")
    return path


def run_markdown(run: RunCourse) -> str:
    """Return the text of `report.md`."""
    picture = element("img", alt="throughput, gap and lag over time", src=PICTURE)
    return markdown(_title(run), _lead(run), _sections(run, picture))


def recorded_report(directory: Path) -> RunReport | None:
    """Return the report in a journal. None if the run did not end. Raises `TowpathError`."""
    return course(read_journal(directory)).outcome


def _title(run: RunCourse) -> str:
    return f"Scenario {run.title}"


def _sections(run: RunCourse, picture: Element) -> list[Element]:
    report = run.outcome
    sections = [
        section("Outcome", *_outcome(report)),
        section("The run over time", picture),
        section("What was injected, and when", *_injected(run)),
        section("Steady state", *_steady_state(run)),
    ]
    if report is None:
        return sections
    energy = [section("Energy", _energy(report))] if report.energy else []
    return [
        *sections,
        section("Migrations", *_migrations(report)),
        *energy,
        section("The checker's verdict", *_verdicts(report)),
    ]


def _lead(run: RunCourse) -> str:
    report = run.outcome
    about = str(run.scenario.get("description", "")).strip()
    end = f"{about} " if about else ""
    if report is None:
        return f"{end}The run did not end: its journal stops."
    found = f"the checker found {in_words(report.findings)}" if report.verdicts else "no results were judged"
    if not report.passed:
        return f"{end}The run was not as expected; {found}."
    return f"{end}The run was as expected: steady again {report.recovered_s:g} s after `during`; {found}."


def _outcome(report: RunReport | None) -> list[Element]:
    if report is None:
        return [paragraph("Nothing was judged. What is known stands below.", class_="bad")]
    if report.passed:
        content = [paragraph("Everything was as the scenario expects.", class_="good")]
    else:
        problems = [element("p", "Not as expected:"), listed(report.problems)]
        content = [element("div", *problems, class_="bad")]
    if report.chosen:
        chosen = ", ".join(f"{path} = {value}" for path, value in report.chosen.items())
        content.append(element("p", f"Seed {report.seed} chose ", element("code", chosen), "."))
    took = f"It took {report.seconds:g} s."
    if not report.source:
        return [*content, paragraph(took)]
    return [*content, element("p", f"{took} To run it again: ", element("code", report.again))]


def _drawing(run: RunCourse) -> Element:
    with plt.rc_context(STYLE):
        figure = figure_of(run, titled=False)
        told = (
            "Above: bars for the rules while they were loaded and for the migrations. Below: the probes over "
            f"time, shaded where steady state was left. {' '.join(_told(run))}"
        )
        drawing = illustration(figure, "run", alt=f"Curves over time. {told}", caption=told)
        plt.close(figure)
    return drawing


def _told(run: RunCourse) -> list[str]:
    return [f"{name}: {_extremes(curve)}." for name, curve in (run.curves | run.metrics).items()]


def _extremes(curve: Curve) -> str:
    known = [value for _, value in curve if not math.isnan(value)]
    return f"from {number(min(known))} to {number(max(known))}" if known else "never measured"


def _injected(run: RunCourse) -> list[Element]:
    rows: list[tuple[float, float | None, str, str]] = []
    for kind, marks in (
        ("phase", run.phases),
        ("rule loaded", run.rules),
        ("migration", run.migrations),
        ("steady state left", run.deviations),
        ("step", run.steps),
    ):
        rows += [(mark.begin, mark.end, kind, mark.text) for mark in marks]
    shown = [
        (f"{begin:.1f}", None if end is None else f"{end:.1f}", kind, what)
        for begin, end, kind, what in sorted(rows, key=lambda row: row[0])
    ]
    caption = "In seconds since the run began."
    content = [table(("from, s", "to, s", "what", "which"), shown, caption=caption)]
    return [*content, *_rules(run)]


def _rules(run: RunCourse) -> list[Element]:
    rules = run.outcome.rules if run.outcome else []
    if not rules:
        return [paragraph("No rules were loaded, or the run did not end.", class_="quiet")]
    rows = [
        (rule.rule, rule.event, ", ".join(rule.faults), rule.looked, rule.acted, rule.errors, rule.last_error)
        for rule in rules
    ]
    acted = sum(rule.acted for rule in rules)
    caption = f"{len(rules)} rule(s), which acted {acted:,} times all together."
    return [
        table(("rule", "event", "faults", "looked", "acted", "errors", "last error"), rows, caption=caption)
    ]


def _steady_state(run: RunCourse) -> list[Element]:
    report = run.outcome
    if not run.scenario:
        return [paragraph("The journal does not say what steady state was.", class_="quiet")]
    scenario = Scenario.model_validate(run.scenario)
    deviated = report.deviated if report else {}
    rows = [
        (title(probe), tolerance(probe), deviated.get(title(probe), 0)) for probe in scenario.steady_state
    ]
    caption = "Probes are looked at twice a second."
    if report is not None:
        caption = f"Steady state was left for {report.deviation_s:g} s all together. {caption}"
    return [table(("probe", "tolerance", "looks outside"), rows, caption=caption)]


def _migrations(report: RunReport) -> list[Element]:
    if not report.migrations:
        return [paragraph("No job was moved.")]
    rows = [
        (
            move.job,
            move.way,
            move.strategy,
            move.state or "unknown",
            seconds(move.total_s),
            seconds(move.downtime_s),
            move.note,
        )
        for move in report.migrations
    ]
    columns = ("job", "way", "strategy", "ended", "total", "downtime", "note")
    return [table(columns, rows, caption=f"{len(rows)} migration(s) under these conditions.")]


def _energy(report: RunReport) -> Element:
    columns = ("node", "energy, J", "mean power, W", "busy, %", "up, s")
    rows = [
        (name, round(node.energy_j), round(node.mean_w, 1), round(100 * node.utilisation), round(node.up_s))
        for name, node in report.energy.items()
    ]
    return table(columns, rows, caption=f"All nodes together took {report.energy_j:,.0f} J.")


def _verdicts(report: RunReport) -> list[Element]:
    if not report.verdicts:
        return [paragraph("No results were judged.")]
    names = ("expected", "results", *FINDINGS, "redelivered")
    found = report.verdicts.values()
    rows = [(name.replace("_", " "), *(getattr(verdict, name) for verdict in found)) for name in names]
    expected = sum(verdict.expected for verdict in found)
    caption = f"{expected:,} results were expected; found amiss: {in_words(report.findings)}."
    examples = [
        f"{job}, {kind.replace('_', ' ')}: {text}"
        for job, verdict in report.verdicts.items()
        for kind, texts in verdict.examples.items()
        for text in texts
    ]
    content = [table(("", *report.verdicts), rows, caption=caption)]
    return [*content, paragraph("Examples:"), listed(examples)] if examples else content
