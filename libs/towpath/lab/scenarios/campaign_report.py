"""The report of a campaign: by scenario, by fault, and how to repeat its failures."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

from towpath.atomic_write import write_atomically
from towpath.contracts.message import Model
from towpath.lab.faults.registry import faults
from towpath.lab.harness.markdown import markdown
from towpath.lab.harness.report import FINDINGS, in_words
from towpath.lab.scenarios.report import RunReport
from towpath.reports.markup import element, listed, paragraph, section, table

JSON_FILE, MARKDOWN_FILE, PICTURE_FILE = "campaign.json", "campaign.md", "campaign.png"


class CampaignReport(Model):
    """Runs that were played one after another: a campaign, or a drill."""

    seed: int = 1
    planned: int = 0
    """Runs that were to be played."""
    seconds: float = 0.0
    restarts: int = 0
    """Restarts of the mesh, because a run left it broken."""
    runs: list[RunReport] = []
    conditions: dict[str, str | float | bool] = {}
    """Of a drill: what was the same for all its runs."""

    @property
    def passed(self) -> bool:
        """True if every planned run was done, and went as expected."""
        return len(self.runs) == self.planned > 0 and all(run.passed for run in self.runs)

    @property
    def failed(self) -> list[RunReport]:
        """Runs that did not go as expected."""
        return [run for run in self.runs if not run.passed]


class RunsTogether(Model):
    """Several runs taken together."""

    name: str
    runs: int
    passed: int
    acted: int = 0
    """Acts of rules in all of them."""
    recovery_median_s: float | None = None
    recovery_max_s: float | None = None
    never_recovered: int = 0
    deviated: int = 0
    """Runs that left steady state."""
    expected: int = 0
    findings: dict[str, int] = {}
    """Sums of the checker's counts."""


def by_scenario(runs: Sequence[RunReport]) -> list[RunsTogether]:
    """Return a row for each scenario, in alphabetical order."""
    return _rows(runs, lambda run: [run.scenario])


def by_fault(runs: Sequence[RunReport]) -> list[RunsTogether]:
    """Return a row for each fault that acted."""
    return _rows(runs, lambda run: _acted(run, lambda rule_faults, event: rule_faults))


def by_event(runs: Sequence[RunReport]) -> list[RunsTogether]:
    """Return a row for each point or target where a rule acted."""
    return _rows(runs, lambda run: _acted(run, lambda rule_faults, event: [event]))


def by_strategy(runs: Sequence[RunReport]) -> list[RunsTogether]:
    """Return a row for each migration strategy that was used."""
    return _rows(runs, lambda run: [str(move.strategy) for move in run.migrations])


def coverage(runs: Sequence[RunReport], known: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the known faults that acted in some run, and those that acted in none."""
    acted = {row.name for row in by_fault(runs)}
    all_known = sorted(known)
    return [name for name in all_known if name in acted], [n for n in all_known if n not in acted]


def _acted(run: RunReport, names: Callable[[list[str], str], list[str]]) -> list[str]:
    return [name for rule in run.rules if rule.acted for name in names(rule.faults, rule.event)]


def _rows(runs: Sequence[RunReport], keys: Callable[[RunReport], list[str]]) -> list[RunsTogether]:
    groups: defaultdict[str, list[RunReport]] = defaultdict(list)
    for run in runs:
        for key in dict.fromkeys(keys(run)):
            groups[key].append(run)
    return [_row(name, groups[name]) for name in sorted(groups)]


def _row(name: str, runs: Sequence[RunReport]) -> RunsTogether:
    recovered = [run.recovered_s for run in runs if run.recovered_s is not None]
    return RunsTogether(
        name=name,
        runs=len(runs),
        passed=sum(run.passed for run in runs),
        acted=sum(rule.acted for run in runs for rule in run.rules),
        recovery_median_s=round(statistics.median(recovered), 1) if recovered else None,
        recovery_max_s=max(recovered, default=None),
        never_recovered=len(runs) - len(recovered),
        deviated=sum(bool(run.deviated) for run in runs),
        expected=sum(verdict.expected for run in runs for verdict in run.verdicts.values()),
        findings={finding: sum(run.total(finding) for run in runs) for finding in FINDINGS},
    )


def write_campaign(directory: Path, report: CampaignReport, *, picture: bool) -> None:
    """Write the report as JSON and Markdown, and its picture on demand, because drawing takes a second."""
    directory.mkdir(parents=True, exist_ok=True)
    write_atomically(directory / JSON_FILE, report.model_dump_json(indent=2) + "\n")
    if picture:
        from towpath.lab.scenarios.picture import draw_campaign

        draw_campaign(directory / PICTURE_FILE, report)
    text = campaign_markdown(report, faults(), PICTURE_FILE if picture else None)
    (directory / MARKDOWN_FILE).write_text(text, encoding="utf-8")


def campaign_markdown(report: CampaignReport, known_faults: Iterable[str], picture: str | None) -> str:
    """Return the text of `campaign.md`."""
    good = len(report.runs) - len(report.failed)
    lead = (
        f"Seed {report.seed}: {good} of {len(report.runs)} runs went as expected, {report.planned} were "
        f"planned. The campaign took {report.seconds / 60:.1f} min; the mesh was restarted "
        f"{report.restarts} times."
    )
    acted, idle = coverage(report.runs, known_faults)
    sections = [
        section("By scenario", _table(by_scenario(report.runs))),
        section("By strategy of migration", _table(by_strategy(report.runs))),
        section("By fault that acted", _table(by_fault(report.runs))),
        section("By place where one acted", _table(by_event(report.runs))),
        paragraph(
            f"{len(acted)} of {len(acted) + len(idle)} faults acted; not: {', '.join(idle) or 'none'}."
        ),
        section("Failures", *_failures(report.failed)),
    ]
    if picture is not None:
        sections.insert(0, element("img", alt="time to recover by scenario", src=picture))
    return markdown("Campaign", lead, sections)


def _table(rows: Sequence[RunsTogether]) -> Element:
    columns = ("", "runs", "passed", "rules acted", "left steady state", "recovered after, median s", "max s")
    lines = [
        (
            row.name,
            row.runs,
            row.passed,
            row.acted,
            row.deviated,
            row.recovery_median_s,
            _longest(row),
            row.expected,
            in_words(row.findings),
        )
        for row in rows
    ]
    caption = (
        "A rule acts when it injects its faults. Times are from the end of `during`, when all faults are"
        " over, to steady state."
    )
    return table((*columns, "results", "found by the checker"), lines, caption=caption)


def _longest(row: RunsTogether) -> str:
    longest = "–" if row.recovery_max_s is None else f"{row.recovery_max_s:.1f}"
    return f"{longest} ({row.never_recovered} never)" if row.never_recovered else longest


def _failures(failed: Sequence[RunReport]) -> list[Element]:
    if not failed:
        return [paragraph("None.")]
    return [
        part for run in failed for part in (element("p", element("code", run.again)), listed(run.problems))
    ]
