"""Report a pipeline: its jobs and edges, its versions, and each job's measurements of the last hour."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from xml.etree.ElementTree import Element

from towpath.composition.versions import differences
from towpath.contracts.commands import JobView
from towpath.contracts.message import now
from towpath.contracts.pipeline import Action, ApplyState, PipelineSpec
from towpath.reports.course_picture import ROWS
from towpath.reports.curves import figures, name_curves, number, plot, quantity
from towpath.reports.drawing import drawn, illustration
from towpath.reports.facts import PipelineFacts, ReadSeries
from towpath.reports.graph_picture import graph_picture
from towpath.reports.markup import Content, element, listed, paragraph, section, table
from towpath.reports.page import page
from towpath.telemetry.selection import unit_in_words, unit_of

ENDINGS = {
    ApplyState.RUNNING: "is being applied",
    ApplyState.COMPLETED: "is applied",
    ApplyState.FAILED: "could not be applied completely",
}


def pipeline_page(facts: PipelineFacts) -> str:
    """Return the page about a pipeline."""
    title = f"Pipeline {facts.view.pipeline}"
    return page(title, lead(facts), pipeline_sections(facts), made_at=now())


def lead(facts: PipelineFacts) -> str:
    """Return a sentence about a pipeline."""
    view, running = facts.view, sum(job.state == "running" for job in facts.jobs)
    text = (
        f"The pipeline {view.pipeline} has {len(view.spec.jobs)} jobs, of which {running} run; its version "
        f"{view.version} {ENDINGS[view.apply.state]}"
    )
    return f"{text}: {view.apply.note}." if view.apply.note else f"{text}."


def pipeline_sections(facts: PipelineFacts) -> list[Element]:
    """Return all sections about one pipeline."""
    return [
        section("Jobs and edges", *_graph(facts)),
        section("Versions", *_versions(facts)),
        section("What the jobs did in the last hour", *_jobs(facts)),
    ]


def _graph(facts: PipelineFacts) -> list[Element]:
    where = {job.spec.name: job.site for job in facts.jobs}
    specs = [job.job_spec() for job in facts.view.spec.jobs]
    picture = graph_picture(specs, where, "graph")
    views = {job.spec.name: job for job in facts.jobs}
    rows = [
        (
            job.name,
            where.get(job.name),
            job.operator.kind,
            ", ".join(wanted.name for wanted in job.inputs),
            f"{job.output_site}/{job.output.topic}",
            _state(views.get(job.name)),
            facts.view.job_versions.get(job.name),
        )
        for job in facts.view.spec.jobs
    ]
    columns = ("job", "site", "operator", "reads", "writes", "state", "at version")
    content = [] if picture is None else [picture]
    return [*content, table(columns, rows, caption=f"The jobs of {facts.view.pipeline}.")]


def _state(view: JobView | None) -> str:
    if view is None:
        return "does not run"
    error = view.status.error if view.status else None
    return f"{view.state or 'unknown'}{f': {error}' if error else ''}"


def _versions(facts: PipelineFacts) -> list[Element]:
    content = [
        element(
            "article",
            element("h3", f"Version {version.version}"),
            paragraph(f"Applied {version.at.isoformat(sep=' ', timespec='seconds')}.", class_="quiet"),
            *_changes(before.spec if before else None, version.spec),
        )
        for version, before in zip_longest(facts.versions, facts.versions[1:])
    ]
    return content or [paragraph("No version is kept.")]


def _changes(before: PipelineSpec | None, after: PipelineSpec) -> Iterator[Content]:
    if before is None:
        yield paragraph(f"The oldest version that is kept: {', '.join(job.name for job in after.jobs)}.")
        return
    found = differences(before, after)
    if not found:
        yield paragraph("The same as the version before.")
    for job, fields in found.items():
        if isinstance(fields, Action):
            yield paragraph(f"{job}: {'added' if fields is Action.ADD else 'removed'}.")
        else:
            yield paragraph(f"{job}: {len(fields)} field(s) changed.")
            yield listed(map(str, fields))


def _jobs(facts: PipelineFacts) -> list[Element]:
    where = {job.spec.name: job.site for job in facts.jobs}
    content: list[Element] = []
    if (shortfall := facts.measured.shortfall()) is not None:
        content.append(paragraph(shortfall, class_="quiet"))
    if facts.measured.failure is not None:
        return content
    until = now().timestamp()
    for job in facts.view.spec.jobs:
        picture = job_picture(
            job.name, where.get(job.name, job.site), facts.measured, until, f"job-{job.name}"
        )
        nothing = paragraph(f"No site measured anything of {job.name} in that time.", class_="quiet")
        content += [element("h3", job.name), nothing if picture is None else picture]
    return content


def job_picture(job: str, site: str, measured: ReadSeries, until: float, name: str) -> Element | None:
    """Draw the measurements of a job until `until`, in Unix seconds. None if there are none."""
    entity = f"job:{job}"
    found = [(row, curves) for row in ROWS if (curves := measured.by_site(row.metric, entity))]
    if not found:
        return None
    with drawn(len(found), height=0.5 + 0.95 * len(found), sharex=True) as (figure, axes):
        for axis, (row, curves) in zip(axes, found, strict=True):
            minutes = {place: [((at - until) / 60, v) for at, v in curve] for place, curve in curves.items()}
            plot(axis, minutes, [site], 0.0, row.label)
        name_curves(axes[0])
        axes[-1].set_xlabel("minutes before the report")
        figure.tight_layout()
        told = " ".join(_told(row.metric, row.noun, curves) for row, curves in found)
        return illustration(figure, name, alt=f"Curves over time of {job}. {told}", caption=told)


def _told(metric: str, noun: str, curves: dict[str, list[tuple[float, float]]]) -> str:
    unit = unit_in_words(unit_of(metric))
    parts = [
        f"{number(known.mean)} on average at {site}, {quantity(known.highest, unit)} at most"
        for site, curve in sorted(curves.items())
        if (known := figures(curve)) is not None
    ]
    return f"{noun}: {'; '.join(parts)}."
