"""Chains of trivial jobs, each reading the topic of the one before: deployed, modified, deleted."""

from __future__ import annotations

from benchmark import Benchmark, Say, Scale
from compositions_course import BATCHES_PER_S, TRIGGER_S, Chain, Seen
from compositions_fit import line_through
from compositions_gaps import Gaps
from compositions_usage import total
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh

from towpath.contracts.site import SiteSpec

SITES = tuple(SiteSpec(name=name) for name in ("ewr", "jfk", "lga", "bos", "phl", "cloud"))
SITE_COUNT = {Scale.QUICK: 2, Scale.DEFAULT: 6, Scale.FULL: 6}
SIZES = {Scale.QUICK: (1, 5, 10), Scale.DEFAULT: (1, 10, 25, 50, 100), Scale.FULL: (1, 10, 25, 50, 75, 100)}
"""Jobs in each chain. In a chain, as many jobs are modified as the smaller chains have, and then all."""

SAMPLE_S = {Scale.QUICK: 3.0, Scale.DEFAULT: 20.0, Scale.FULL: 20.0}

DEPLOY, DEPLOY_EACH = "deploy, s", "deploy, s per job"
MODIFY_ALL, MODIFY_EACH, CHEAPER = "modify all, s", "modify all, s per job", "modify ÷ deploy"
DELETE, DELETE_EACH = "delete, s", "delete, s per job"
GAP, MEMORY = "untouched: own gap beyond usual, s", "memory (PSS), GiB"
SLOPE, CONSTANT, R_SQUARED = "s per job", "constant, s", "R²"
TARGETS = {
    DEPLOY_EACH: Target(at_most=1.0),
    CHEAPER: Target(at_most=1.0),
    GAP: Target(at_most=0.0),
    MEMORY: Target(at_most=16.0),
}
LINEAR = {R_SQUARED: Target(at_least=0.98)}


def case_of(jobs: int, seen: Seen) -> Case:
    """A chain's figures."""
    modify_s = seen.modify_s[jobs]
    memory = total(seen.memory)
    figures: dict[str, Value] = {
        DEPLOY: rounded(seen.deploy_s, 2),
        DEPLOY_EACH: rounded(seen.deploy_s / jobs),
        "deploy, CPU s per job": rounded(seen.cpu_s["deploy"] / jobs, 2),
        **{f"modify {count}, s": rounded(s, 2) for count, s in seen.modify_s.items() if count != jobs},
        MODIFY_ALL: rounded(modify_s, 2),
        MODIFY_EACH: rounded(modify_s / jobs),
        "modify all, CPU s per job": rounded(seen.cpu_s[f"modify {jobs}"] / jobs, 2),
        CHEAPER: rounded(modify_s / seen.deploy_s),
        DELETE: rounded(seen.delete_s, 2),
        DELETE_EACH: rounded(seen.delete_s / jobs),
        **_gap_figures(seen.gaps),
        MEMORY: rounded(memory.proportional_mb * 1e6 / 2**30, 2),
        "memory (resident), GiB": rounded(memory.resident_mb * 1e6 / 2**30, 2),
        "processes": memory.processes,
        "cores, no events": rounded(sum(seen.idle_cores.values()), 2),
        "cores, with events": rounded(sum(seen.busy_cores.values()), 2),
        "events through all jobs": seen.events,
        "lost or repeated": seen.faults,
    }
    targets = {title: target for title, target in TARGETS.items() if title in figures}
    return Case(f"{jobs} jobs", figures, targets, seen.faults)


def _gap_figures(found: list[Gaps]) -> dict[str, Value]:
    if not found:
        return {}
    return {
        "untouched: usual interval, s": rounded(max(g.usual_s for g in found), 2),
        "untouched: longest before, s": rounded(max(g.longest_before_s for g in found), 2),
        "untouched: longest in a change, s": rounded(max(g.longest_s for g in found), 2),
        "untouched: late at the end, s": rounded(max(g.beyond_usual_s for g in found), 2),
        GAP: rounded(max(g.own_s for g in found), 2),
    }


def fits(seen: dict[int, Seen]) -> list[Case]:
    """Fit a line to each time over the number of jobs."""
    points = {
        "deploy": [(n, s.deploy_s) for n, s in seen.items()],
        "modify": [(k, took) for s in seen.values() for k, took in s.modify_s.items()],
        "delete": [(n, s.delete_s) for n, s in seen.items()],
    }
    lines = {what: line_through(at) for what, at in points.items()}
    return [
        Case(
            f"line: {what}",
            {
                SLOPE: rounded(line.slope),
                CONSTANT: rounded(line.constant, 2),
                R_SQUARED: rounded(line.r_squared, 4),
            },
            LINEAR,
        )
        for what, line in lines.items()
        if line is not None
    ]


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure one chain after the other."""
    assert mesh is not None
    sites = [site.name for site in SITES[: SITE_COUNT[scale]]]
    measured.upright = True
    measured.notes += [
        f"forward jobs at {len(sites)} sites, the first n/{len(sites)} at the first, and so on; trigger "
        f"{TRIGGER_S:g} s; an event every max(n / {BATCHES_PER_S:g}, 0.25) s while jobs are modified",
        "modify k: another parameter for the last k jobs, in one apply; untouched are those before them",
        "line: least squares over all chains; for modify over all (k, s) of all chains",
    ]
    seen: dict[int, Seen] = {}
    for jobs in SIZES[scale]:
        modify = tuple(count for count in SIZES[scale] if count <= jobs)
        seen[jobs] = await Chain(mesh, jobs, sites, modify, SAMPLE_S[scale], say).measure()
        measured.cases.append(case_of(jobs, seen[jobs]))
        measured.raw[str(jobs)] = {
            "modify_s": seen[jobs].modify_s,
            "cpu_s": seen[jobs].cpu_s,
            "steps_s": seen[jobs].steps_s,
            "idle_cores": seen[jobs].idle_cores,
            "busy_cores": seen[jobs].busy_cores,
            "memory": {kind: vars(used) for kind, used in seen[jobs].memory.items()},
            "gaps": [vars(found) for found in seen[jobs].gaps],
        }
    measured.cases += fits(seen)


BENCHMARK = Benchmark("chains", "chains of trivial jobs as pipelines", SITES, measure)
