"""`towpath top` joins answers, leaves out the rest, and fits a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from typing import Any

import pytest
from rich.console import Console

from running.waiting import WITHIN_S
from towpath.cli.top import COLLECTOR_S, MeshWatch, _every
from towpath.cli.top_figures import MeshView, Newest, job_rows, link_rows, result_rates, site_rows
from towpath.cli.top_tables import Column, Screen, fitting
from towpath.contracts.commands import JobList, JobView, ListJobs, ListSites, OperationView, SiteList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command
from towpath.contracts.metrics import QueryMetrics, Series, SeriesList
from towpath.contracts.site import SiteStatus

NOW = 1_767_225_600.0
SPEC = {
    "name": "hourly-jfk",
    "site": "jfk",
    "inputs": [{"site": "jfk", "topic": "site/departures"}],
    "output": {"topic": "departures/hourly"},
    "operator": {"kind": "filter", "fields": {"delay": "double"}, "where": "delay > 15"},
}
STATUS = {"job": "hourly-jfk", "epoch": 2, "state": "running", "events_per_s": 250.0, "results": 100}
OUTPUT = {"site": "jfk", "stream": "OUT", "topic": "departures/hourly", "rejected_topic": "r"}


def site(**changes: Any) -> SiteStatus:
    return SiteStatus.model_validate({**SiteStatus.example, **changes})


def job(results: int = 100, **changes: Any) -> JobView:
    content = {
        "spec": SPEC,
        "site": "jfk",
        "epoch": 2,
        "state": "running",
        "operation": None,
        "status": {**STATUS, "results": results},
        "output": OUTPUT,
    }
    return JobView.model_validate({**content, **changes})


def series(metric: str, entity: str, value: float, *, at: float = NOW, site: str = "jfk") -> Series:
    return Series(site=site, entity=entity, metric=metric, unit="1", points=[(at, value)])


def measured(*more: Series) -> SeriesList:
    found = [
        series("job.event_rate", "job:hourly-jfk", 300.0),
        series("job.result_rate", "job:hourly-jfk", 42.0),
        series("job.latency.end_to_end.p95", "job:hourly-jfk", 1.85),
        series("job.backlog", "job:hourly-jfk", 1_234.0),
        series("job.state.memory", "job:hourly-jfk", 2_000_000.0),
        series("process.cpu.utilization", "process:nats", 0.25),
        series("process.cpu.utilization", "process:engine", 0.5),
        series("process.memory.usage", "process:engine", 900e6),
        series("link.round_trip", "link:hub", 0.0012),
        series("link.bandwidth", "link:hub", 25e6),
    ]
    return SeriesList(series=[*found, *more])


OPERATION = {
    "operation": "5f0c9a7be210",
    "kind": "migrate",
    "job": "hourly-jfk",
    "state": "running",
    "strategy": "handover",
    "source": "jfk",
    "target": "cloud",
    "begun_at": "2026-01-01T00:00:00Z",
    "journal": [{"step": "ship-checkpoint", "phase": "begun", "at": "2026-01-01T00:00:01Z"}],
}


class Mesh:
    """Stands for the connection to a mesh."""

    def __init__(self, metrics: SeriesList | None = None, *, silent: bool = False) -> None:
        self.metrics, self.silent, self.results = metrics, silent, 100

    async def request(self, command: Command[Any], *, deadline_s: float) -> Any:
        assert deadline_s > 0
        if isinstance(command, QueryMetrics):
            if self.metrics is None:
                raise TowpathError(ErrorCode.UNREACHABLE, f"no one answered within {COLLECTOR_S:g} s")
            return self.metrics
        if self.silent:
            raise TowpathError(ErrorCode.UNREACHABLE, "no one answered")
        if isinstance(command, ListSites):
            return SiteList(sites=[site()])
        if isinstance(command, ListJobs):
            self.results += 10
            return JobList(jobs=[job(self.results, operation="5f0c9a7be210")])
        return OperationView.model_validate(OPERATION)


def shown(view: MeshView, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(Screen(view))
    return console.file.getvalue()  # type: ignore[attr-defined]


async def looked(mesh: Mesh) -> MeshView:
    watch = MeshWatch(mesh)  # type: ignore[arg-type]
    await watch.look_once()
    return watch.view()


async def test_top_when_all_answer_then_shows_sites_jobs_steps_and_links() -> None:
    view = await looked(Mesh(measured()))
    assert (view.figures, view.notes) == ("collector", [])
    [row] = view.sites
    assert (row.cores, row.memory_bytes) == (0.75, 900e6)
    assert (view.operations[0].step, view.links[0].round_trip_s) == ("ship-checkpoint", 0.0012)
    text = shown(view)
    for part in (
        "300",
        "42",
        "1.85 s",
        "1,234",
        "2.0 MB",
        "ship-checkpoint",
        "jfk → cloud",
        "1.2 ms",
        "25.0 MB/s",
    ):
        assert part in text


async def test_top_when_the_collector_is_silent_then_shows_what_heartbeats_know_and_says_so() -> None:
    view = await looked(Mesh())
    assert (view.figures, view.links) == ("heartbeats", [])
    assert view.jobs[0].events_per_s == 250.0
    assert (view.jobs[0].latency_p95_s, view.jobs[0].backlog) == (None, None)
    assert view.sites[0].memory_bytes == 31.5 * 1024**2
    assert "the collector does not answer: no one answered" in shown(view)
    assert "p95" not in shown(view)


async def test_top_when_a_site_did_not_answer_then_names_it() -> None:
    found = measured().model_copy(update={"unreached": {"lga": "no answer within 3 s"}})
    assert (await looked(Mesh(found))).notes == ["no figures of lga: no answer within 3 s"]


async def test_top_when_the_coordinator_falls_silent_then_keeps_what_was_known() -> None:
    mesh = Mesh(measured(), silent=True)
    with pytest.raises(TowpathError):
        await looked(mesh)
    mesh.silent = False
    watch = MeshWatch(mesh)  # type: ignore[arg-type]
    await watch.look_once()
    mesh.silent = True
    await watch.look_at_coordinator()
    assert watch.view().notes == ["the coordinator does not answer: no one answered"]
    assert [row.job for row in watch.view().jobs] == ["hourly-jfk"]
    mesh.silent = False
    await watch.look_at_coordinator()
    assert watch.view().notes == []


def test_figures_when_older_than_the_sites_newest_then_are_not_shown() -> None:
    old = series("job.event_rate", "job:hourly-jfk", 9.0, at=NOW - 60)
    newest = Newest(SeriesList(series=[old, series("site.cpu.utilization", "site", 1.0)]))
    assert job_rows([job()], newest, {})[0].events_per_s == 250.0
    links = [
        series("link.round_trip", f"link:{to}", 0.1, at=NOW - age) for to, age in (("lga", 30), ("x", 90))
    ]
    newest = Newest(measured(*links))
    assert [(row.source, row.target) for row in link_rows(newest)] == [("jfk", "hub"), ("jfk", "lga")]


def test_job_when_it_moved_then_figures_are_those_of_its_site() -> None:
    moved = Newest(measured(series("job.event_rate", "job:hourly-jfk", 7.0, site="cloud")))
    assert job_rows([job(site="cloud")], moved, {})[0].events_per_s == 7.0
    assert job_rows([job(site="cloud")], moved, {"hourly-jfk": 3.0})[0].results_per_s == 3.0


def test_site_when_nothing_is_known_then_has_no_figures() -> None:
    [row] = site_rows([site(processes=[], state="down", error="no heartbeat")], Newest(None))
    assert (row.cores, row.memory_bytes, row.error) == (None, None, "no heartbeat")


def test_rates_when_a_query_began_again_then_are_unknown() -> None:
    assert result_rates([job(100)], [job(120)], 4.0) == {"hourly-jfk": 5.0}
    assert result_rates([job(100)], [job(20)], 4.0) == {}
    assert result_rates([job(100, epoch=1)], [job(120)], 4.0) == {}
    assert result_rates([job(100)], [job(120)], 0.0) == {}


@pytest.mark.parametrize(
    ("width", "left"), [(100, ["a", "bb", "ccc"]), (8, ["a", "bb"]), (4, ["a"]), (1, ["a"])]
)
def test_columns_when_the_terminal_is_narrow_then_the_least_important_leave_first(
    width: int, left: list[str]
) -> None:
    columns = (Column("a"), Column("bb", 1), Column("ccc", 2), Column("empty", 1))
    rows = [["x", "yy", "zzzz", "–"]]
    assert [columns[place].title for place in fitting(columns, rows, width)] == left


@pytest.mark.parametrize("width", [20, 40, 80, 200])
async def test_screen_when_narrow_then_no_line_is_wider(width: int) -> None:
    view = await looked(Mesh(measured()))
    lines = shown(view, width).splitlines()
    assert max(map(len, lines)) <= width
    assert any("hourly" in line for line in lines)


def test_look_when_joined_for_a_hundred_jobs_then_each_has_its_own_figures() -> None:
    jobs = [job(spec={**SPEC, "name": f"job-{n:03}"}, status=None) for n in range(100)]
    rates = [series("job.event_rate", f"job:job-{n:03}", float(n), at=time.time()) for n in range(100)]
    rows = job_rows(jobs, Newest(SeriesList(series=rates)), {})
    assert [row.events_per_s for row in rows] == [float(n) for n in range(100)]


async def test_looks_when_one_overhears_that_it_is_cancelled_then_end_all_the_same() -> None:
    looked = asyncio.Event()

    async def look() -> None:
        looked.set()
        with contextlib.suppress(asyncio.CancelledError):  # As `wait_for` does when its answer comes, too.
            await asyncio.sleep(3600)

    looking = asyncio.create_task(_every(0.2, look))
    await looked.wait()
    looking.cancel()
    await asyncio.wait({looking}, timeout=WITHIN_S)
    assert looking.cancelled()
