"""Draw a pipeline as a graph: its jobs from left to right in the direction of data, with topics between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from xml.etree.ElementTree import Element

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from towpath.composition.graph import writers_of
from towpath.contracts.job import JobSpec
from towpath.reports.drawing import INK, QUIET, colour, drawn, illustration

ROW_INCHES = 0.62
HALF_HEIGHT = 0.3
HALF_WIDTH = 0.4
"""Half the width of a job's box. Jobs stand at whole numbers."""

Places = dict[str, tuple[float, float]]


def stages(writers: Mapping[str, set[str]]) -> list[list[str]]:
    """Group jobs by their distance from the devices. Jobs that read each other in a cycle come last."""
    sorter = TopologicalSorter({name: before - {name} for name, before in writers.items()})
    try:
        sorter.prepare()
    except CycleError:
        return [sorted(writers)]
    found: list[list[str]] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        found.append(ready)
        sorter.done(*ready)
    return found


def graph_picture(jobs: Sequence[JobSpec], where: Mapping[str, str], name: str) -> Element | None:
    """Draw the jobs. `where` names the site of each. None if there are no jobs."""
    if not jobs:
        return None
    writers = writers_of(jobs)
    columns = stages(writers)
    tallest = max(len(column) for column in columns)
    places: Places = {
        job: (float(x), row + (tallest - len(column)) / 2)
        for x, column in enumerate(columns)
        for row, job in enumerate(column)
    }
    sites = sorted(set(where.values()))
    with drawn(height=0.5 + ROW_INCHES * tallest) as (figure, [axis]):
        for reader, before in writers.items():
            for writer in before - {reader}:
                _arrow(axis, places[writer], places[reader])
        for job in places:
            _box(axis, places[job], job, where.get(job, "?"), colour(_position(sites, where.get(job))))
        axis.set_xlim(-0.6, max(len(columns), 3) - 0.4)
        axis.set_ylim(tallest - 0.4, -0.6)
        axis.axis("off")
        figure.tight_layout()
        told = _told(jobs, writers, where)
        return illustration(figure, name, alt=f"A graph of the jobs. {told}", caption=told)


def _position(sites: Sequence[str], site: str | None) -> int:
    return sites.index(site) if site in sites else len(sites)


def _arrow(axis: Axes, begin: tuple[float, float], end: tuple[float, float]) -> None:
    axis.annotate(
        "",
        xy=(end[0] - HALF_WIDTH, end[1]),
        xytext=(begin[0] + HALF_WIDTH, begin[1]),
        arrowprops={"arrowstyle": "-|>", "color": QUIET, "lw": 1.2, "shrinkA": 0, "shrinkB": 0},
    )


def _box(axis: Axes, place: tuple[float, float], job: str, site: str, edge: str) -> None:
    x, y = place
    width, height = 2 * HALF_WIDTH, 2 * HALF_HEIGHT
    corner = (x - HALF_WIDTH, y - HALF_HEIGHT)
    axis.add_patch(Rectangle(corner, width, height, fill=False, ec=edge, lw=1.8))
    axis.text(x, y - 0.08, job, ha="center", va="center", fontsize=8, color=INK)
    axis.text(x, y + 0.16, f"at {site}", ha="center", va="center", fontsize=7, color=edge)


def _told(jobs: Sequence[JobSpec], writers: Mapping[str, set[str]], where: Mapping[str, str]) -> str:
    edges = sum(len(before) for before in writers.values())
    fed = sum(any(i.from_device for i in job.inputs) for job in jobs)
    spread = ", ".join(
        f"{sum(site == one for one in where.values())} at {site}" for site in sorted(set(where.values()))
    )
    return (
        f"{len(jobs)} jobs ({spread or 'none runs'}); {fed} of them read what devices send, and along "
        f"{edges} edges jobs read each other's results."
    )
