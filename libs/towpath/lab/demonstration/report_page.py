"""`demo/report.html`: what the run found, what its picture shows, and each of its migrations."""

from __future__ import annotations

from xml.etree.ElementTree import Element

import matplotlib.pyplot as plt

from towpath.contracts.message import now
from towpath.lab.demonstration.picture import figure_of
from towpath.lab.demonstration.report import DemonstrationReport
from towpath.lab.demonstration.run import Outcome
from towpath.reports.costs import downtime
from towpath.reports.drawing import STYLE, illustration
from towpath.reports.markup import element, listed, paragraph, section, table
from towpath.reports.migration import lead, migration_sections, title
from towpath.reports.page import page


def demonstration_page(outcome: Outcome) -> str:
    """Return the page on a run."""
    report = outcome.report
    sections = [section("The checker's verdict", *_verdict(report))]
    if outcome.moving and outcome.passing:
        sections.append(section("The run over time", _picture(outcome)))
    for number, facts in enumerate(outcome.moves, 1):
        parts = migration_sections(facts, name=f"migration-{number}", level=3)
        heading = f"Migration {number}: {title(facts.view)}"
        sections.append(section(heading, paragraph(lead(facts.view)), *parts))
    heading = f"{outcome.moving_job} moves {len(report.migrations)} times under load"
    return page(heading, _lead(report), sections, made_at=now())


def _lead(report: DemonstrationReport) -> str:
    return (
        f"{report.events:,} real departures were replayed at {report.events_per_s:,.0f} events/s; of "
        f"{report.expected_results:,} expected results {report.results:,} came: {report.in_three}."
    )


def _verdict(report: DemonstrationReport) -> list[Element]:
    rows = [
        ("events sent by devices", report.events),
        ("cancelled or malformed, sent to the dead-letter topics", report.rejected),
        (
            "results expected, by a batch computation over what each job's inputs hold",
            report.expected_results,
        ),
        ("results received", report.results),
        ("lost", report.lost),
        ("duplicated", report.duplicated),
        ("wrong", report.wrong + report.unexpected),
        ("out of order", report.out_of_order),
        ("delivered again by the broker after a reconnection", report.redelivered),
    ]
    if report.exact and report.results:
        outcome = [paragraph("Every result arrived exactly once, and right.", class_="good")]
    else:
        outcome = [paragraph("Not every result arrived exactly once, and right.", class_="bad")]
    if report.problems:
        outcome += [element("p", "Not as expected:"), listed(report.problems)]
    examples = [f"{kind}: {text}" for kind, texts in report.examples.items() for text in texts]
    found = [] if not examples else [element("p", "Examples:"), listed(examples)]
    return [*outcome, table(("", "how many"), rows, caption="Every single result was compared."), *found]


def _picture(outcome: Outcome) -> Element:
    moving_job = outcome.moving_job
    with plt.rc_context(STYLE):
        figure = figure_of(outcome, titled=False)
        silences = [] if outcome.report.silences is None else [f"The {outcome.report.silences}."]
        told = " ".join([_latency(outcome.report), *_moves(outcome.report), *silences])
        caption = f"Shaded: while {moving_job} moved. {told}"
        alt = f"Throughput and latency of {moving_job}, and throughput of the jobs before it. {told}"
        drawing = illustration(figure, "run", alt=alt, caption=caption)
        plt.close(figure)
    return drawing


def _latency(report: DemonstrationReport) -> str:
    if report.latency_p50_s is None:
        return "No cleaned event came."
    return (
        f"A cleaned event took {report.latency_p50_s:.2f} s from its site's broker to the subscriber in the "
        f"median, {report.latency_p99_s:.2f} s at the 99th percentile."
    )


def _moves(report: DemonstrationReport) -> list[str]:
    return [
        f"From {move.source} to {move.target}: {move.total_s or 0:.1f} s, "
        f"downtime {downtime(move.downtime_s)}, {move.state_bytes or 0:,} bytes of state."
        for move in report.migrations
    ]
