"""`demo/edge.html`: the journey station by station, the verdict, and each migration."""

from __future__ import annotations

from xml.etree.ElementTree import Element

import matplotlib.pyplot as plt

from towpath.contracts.message import now
from towpath.lab.demonstration.edge.jobs import RIDE
from towpath.lab.demonstration.edge.picture import figure_of
from towpath.lab.demonstration.edge.report import EdgeReport
from towpath.lab.demonstration.edge.run import EdgeOutcome
from towpath.reports.drawing import STYLE, illustration
from towpath.reports.markup import element, listed, paragraph, section, table
from towpath.reports.migration import lead, migration_sections, title
from towpath.reports.page import page


def edge_page(outcome: EdgeOutcome) -> str:
    """Return the page on a run."""
    report = outcome.report
    sections = [
        section("The checker's verdict", *_verdict(report)),
        section("The journey", _picture(outcome), _stations(report), *_refusals(report)),
        section("Alarms", _alarms(report)),
    ]
    for number, facts in enumerate(outcome.moves, 1):
        parts = migration_sections(facts, name=f"migration-{number}", level=3)
        heading = f"Migration {number}: {title(facts.view)}"
        sections.append(section(heading, paragraph(lead(facts.view)), *parts))
    return page(
        "A train finds a flat wheel, with a link at stations only", _lead(report), sections, made_at=now()
    )


def detected(report: EdgeReport) -> str:
    """Say in one sentence when the flat wheel was found, and when that was known elsewhere."""
    found = report.detection
    if found.latency_s is None:
        return f"The flat wheel {found.wheel} was not found."
    known = (
        "never reached the trackside"
        if found.known_after_s is None
        else (f"reached the trackside {found.known_after_s:.1f} s after it, with the link")
    )
    return (
        f"The flat wheel {found.wheel} was found on board {found.latency_s:.1f} s after its first impact, "
        f"with impact {found.impacts}, and the alarm {known}."
    )


def _lead(report: EdgeReport) -> str:
    return (
        f"Seven accelerometers sent {report.reports:,} reports at {report.reports_per_s:,.0f}/s. "
        f"{detected(report)} Of {report.judged.expected:,} expected results {report.judged.results:,} came: "
        f"{report.judged.in_three}."
    )


def _verdict(report: EdgeReport) -> list[Element]:
    rows = [
        (job, each.expected, each.results, each.lost, each.duplicated, each.wrong + each.unexpected)
        for job, each in report.judgements.items()
    ]
    columns = ("job", "expected", "received", "lost", "duplicated", "wrong")
    told = "Everything was as it should be." if report.clean else "Not everything was as it should be."
    parts = [
        paragraph(told, class_="good" if report.clean else "bad"),
        table(columns, rows, caption="Every single result was compared with a batch computation."),
    ]
    faults = [f"{kind}: {text}" for kind, text in report.judged.example_rows()]
    if report.problems or faults:
        parts.append(listed([*report.problems, *faults]))
    return parts


def _picture(outcome: EdgeOutcome) -> Element:
    with plt.rc_context(STYLE):
        figure = figure_of(outcome, titled=False)
        caption = (
            "From above: speed; the statistic of each wheel's model with its limit; events made on board and "
            f"delivered; results of {RIDE} by the site that computed them, shaded while it moved."
        )
        drawing = illustration(
            figure, "journey", alt=f"{caption} {detected(outcome.report)}", caption=caption
        )
        plt.close(figure)
    return drawing


def _stations(report: EdgeReport) -> Element:
    rows = [
        (
            contact.station,
            f"{contact.departs_s - contact.arrives_s:g} s",
            contact.delivered,
            contact.first_after_s,
            contact.caught_up_after_s,
            contact.asked.outcome(report.migrations) if contact.asked else None,
        )
        for contact in report.contacts
    ]
    columns = ("station", "stop", "events delivered", "first after, s", "caught up after, s", RIDE)
    return table(columns, rows, caption="Times are since the link was back.")


def _refusals(report: EdgeReport) -> list[Element]:
    told = [
        f"{contact.station}: {contact.asked.refusal}"
        for contact in report.contacts
        if contact.asked is not None and contact.asked.refusal is not None
    ]
    return [element("p", "Refused, with nothing begun:"), listed(told)] if told else []


def _alarms(report: EdgeReport) -> Element:
    caption = "Events with an alarm, of all events that the node made."
    return table(("wheel", "alarms"), [*report.alarms.items()], caption=caption)
