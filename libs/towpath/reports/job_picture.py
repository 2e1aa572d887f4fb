"""What a job did over some time: throughput, latency and backlog side by side."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from towpath.reports.course_picture import ROWS
from towpath.reports.curves import figures, name_curves, number, plot, quantity
from towpath.reports.drawing import drawn, illustration
from towpath.reports.facts import Measured, unit_of


def job_picture(job: str, site: str, measured: Measured, until: float, name: str) -> Element | None:
    """Draw what was measured of a job until then, Unix seconds; None where nothing was."""
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
    unit = unit_of(metric)
    parts = [
        f"{number(known.mean)} on average at {site}, {quantity(known.highest, unit)} at most"
        for site, curve in sorted(curves.items())
        if (known := figures(curve)) is not None
    ]
    return f"{noun}: {'; '.join(parts)}."
