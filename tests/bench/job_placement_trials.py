"""The trials of RAINBOW D4.2, FR.DPS.1, 2, 3 and 5, as pictures of a mesh: who gets which share of the tasks.

Its jobs are "StreamSight queries" without more; its plots are lost. Here a query is a chain of three jobs
that reads a source of its own. In trials 1, 2 and 5 sources lie at the hub, where no job runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from towpath.placement.jobs.evaluation import evaluate
from towpath.placement.jobs.hub_links import links_over_hub
from towpath.placement.jobs.policies.registry import policy
from towpath.placement.jobs.view import Job, Link, MeshView, Site, Source

NOTES = (
    "FR.DPS: shares of tasks in the order of the trial's workers, and the mean latency over queries. "
    "The source leaves open the queries and their load. Trials 1, 2 and 5: 12 queries of 3 jobs, 60 % of all "
    "cores. Trial 3: 5 queries of one job; 30 ms to each Pi and 3.55 GHz in all are chosen so that "
    "`performance` comes out as reported, the rest follows.",
)
LADDER_GHZ = (1.5, 2.5, 3.5, 4.5, 5.5, 6.5)
LADDER_S = (0.0, 0.007, 0.014, 0.021, 0.028, 0.035)
SLOW_S, SLOW_CORES = 0.07, 0.25
EQUAL_CORES = 4.0
HUB = "hub"
FAST = "performance"
STEPS = ("clean", "window", "average")


@dataclass(frozen=True)
class Trial:
    """A placement of a trial, in words."""

    text: str
    is_as_reported: bool | None
    """True if those have more tasks that should. None if nothing is reported."""


def trials() -> Iterator[Trial]:
    """Yield one line per placement."""
    by_strength = workers(LADDER_GHZ, (0.02,) * 6)
    weakened = workers([ghz * (SLOW_CORES if n < 2 else 1) for n, ghz in enumerate(LADDER_GHZ)], (0.02,) * 6)
    by_distance = workers((EQUAL_CORES,) * 6, LADDER_S)
    delayed = workers((EQUAL_CORES,) * 6, [SLOW_S if n < 2 else s for n, s in enumerate(LADDER_S)])
    yield _trial("1, baseline", by_strength, "baseline")
    yield _trial("1, performance", by_strength, FAST, _growing, "more to stronger")
    yield _trial("2, baseline", by_distance, "baseline")
    yield _trial("2, performance", by_distance, FAST, _falling, "fewer to distant")
    yield from _strategies()
    yield _trial("5a, performance, two lost 75 % of CPU", weakened, FAST, _growing, "more to the others")
    yield _trial("5b, quality, before", by_distance, "quality", _falling)
    yield _trial("5b, quality, two at 70 ms", delayed, "quality", _first_two_least, "more to the others")


def workers(cores: list[float] | tuple[float, ...], latencies_s: list[float] | tuple[float, ...]) -> MeshView:
    """Return six workers of 4 GB around a hub, and 12 queries whose load depends on the ladder alone."""
    names = [f"worker-{number + 1}" for number in range(len(cores))]
    to_hub = [Link(name, HUB, latency_s) for name, latency_s in zip(names, latencies_s, strict=True)]
    # A packet crosses the links of both ends, and a hub has none of its own.
    links = (*links_over_hub(to_hub), *to_hub)
    sites = [Site(name, each, 4096) for name, each in zip(names, cores, strict=True)]
    sources, jobs = queries(12, HUB, cores_each=0.6 * sum(LADDER_GHZ) / 36, checked=True)
    return MeshView((*sites, Site(HUB, 0, 0)), links, sources, _nowhere_else(jobs, names))


def queries(
    count: int, site: str, cores_each: float, checked: bool = False, steps: Sequence[str] = STEPS
) -> tuple[tuple[Source, ...], tuple[Job, ...]]:
    """Return queries of some jobs in a row, each with 10 events/s from a source of its own."""
    sources = tuple(Source(f"metrics-{number}", site, 10) for number in range(count))
    jobs = []
    for source in sources:
        before = source.name
        for step in steps:
            check = cores_each / 20 if checked and step == "clean" else None
            name = f"{step}-{source.name}"
            jobs.append(Job(name, (before,), cores_each / 10, 100, check_cpu_s_per_event=check))
            before = name
    return sources, tuple(jobs)


def _nowhere_else(jobs: tuple[Job, ...], sites: list[str]) -> tuple[Job, ...]:
    return tuple(replace(job, allowed=frozenset(sites)) for job in jobs)


def _strategies() -> Iterator[Trial]:
    """Yield the lines of FR.DPS.3: a server and four Raspberry Pis, two of them on battery."""
    pis = [Site(f"rp{number}", 4 * 1.5, 4096, 4, 8, on_battery=number in (1, 3)) for number in range(1, 5)]
    server = Site("server", 12 * 2.4, 12 * 1024, 70, 200)
    to_hub = [Link("server", HUB, 0.0), *(Link(pi.name, HUB, 0.03) for pi in pis)]
    sources, jobs = queries(5, "server", cores_each=3.55 / 5, steps=("average",))
    view = MeshView((server, *pis), links_over_hub(to_hub), sources, jobs)
    base = evaluate(view, policy("baseline").place(view))
    yield _trial("3, baseline", view, "baseline", _equal, "equal shares")
    for name, is_so, reported in (
        ("performance", _all_first, "all at the server, −24 ms, power +12 %"),
        ("energy", _two_plugged_in, "at the two Pis without battery, +18 ms, power −18 %"),
    ):
        found = evaluate(view, policy(name).place(view))
        later_ms = 1000 * (found.mean_latency_s - base.mean_latency_s)
        power = 100 * (found.power_w / base.power_w - 1)
        added = 100 * (found.added_w / base.added_w - 1)
        trial = _trial(f"3, {name}", view, name, is_so, reported)
        against = f"; against baseline {later_ms:+.0f} ms, power {power:+.0f} %, above idle {added:+.0f} %"
        yield replace(trial, text=trial.text.replace("; reported", f"{against}; reported"))


def _trial(
    name: str, view: MeshView, of: str, is_so: Callable[[list[int]], bool] | None = None, reported: str = ""
) -> Trial:
    placement = policy(of).place(view)
    found = evaluate(view, placement)
    count = Counter(placement.values())
    tasks = [count[site.name] for site in view.sites if site.cores]
    shares = " ".join(f"{100 * each / len(view.jobs):.0f}" for each in tasks)
    text = f"FR.DPS.{name}: {shares} % of tasks, {1000 * found.mean_latency_s:.1f} ms"
    verdict = None if is_so is None else found.feasible and is_so(tasks)
    return Trial(text + (f"; reported: {reported}" if reported else ""), verdict)


def _growing(tasks: list[int]) -> bool:
    return tasks == sorted(tasks)


def _falling(tasks: list[int]) -> bool:
    return tasks == sorted(tasks, reverse=True)


def _first_two_least(tasks: list[int]) -> bool:
    return max(tasks[:2]) <= min(tasks[2:])


def _equal(tasks: list[int]) -> bool:
    return len({*tasks}) == 1


def _all_first(tasks: list[int]) -> bool:
    return not any(tasks[1:])


def _two_plugged_in(tasks: list[int]) -> bool:
    """True if of server, rp1, rp2, rp3, rp4 only those without a battery have tasks."""
    return not (tasks[0] or tasks[1] or tasks[3])
