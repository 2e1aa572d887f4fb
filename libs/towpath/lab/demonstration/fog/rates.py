"""Processing rates, and the differential output rate: pure.

The **processing rate** of a job at an input rate, events per second: the accepted events whose results
are out, over the time from the first event sent to the last of these results received. An event is
accepted by job 3 when job 1 found it well formed, by job 4 when it also left late; its result is out when
a subscriber of the job's topic received the window that it counts in. The same job of several edges is
one job here: events are added up, and time runs from the first edge's first event to the last edge's last
result. So the rate can never exceed the rate of accepted input, and stays below it by the time that
events take through the pipeline, the closing of their windows included.

The **differential output rate** (SpecK, DAIS 2021) of the scenarios *Fog* and *Cloud* whose processing
rates are F and C is D = (100/F)·(F − C) percent: above 0 where Fog is faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from towpath.checker.identity import Identity, WindowIdentity
from towpath.checker.observation import ReceivedMessage
from towpath.contracts.job import JobStatus
from towpath.contracts.message import Model
from towpath.lab.harness.judge import Expected

COUNT = "departures"
"""Aggregate that says how many events a window holds."""

STAGES = {"job 3": "hourly-", "job 4": "delays-"}
"""Job of the paper → beginning of the names of its jobs for the edges."""


class StageRate(Model):
    """The rate of a job, of all edges together, in one scenario at one input rate."""

    events: int
    """Accepted events whose results were received."""
    of_events: int
    """Accepted events, by a batch computation over what was sent."""
    seconds: float
    """From the first event sent to the last result received."""
    rate: float
    """Events per second."""
    reported_events: int
    """Events that the jobs say they read, with those that close windows."""
    reported_rate: float | None
    """`reported_events` over the time from the first event sent to the last micro-batch committed."""


def differential_output_rate(fog: float, cloud: float) -> float | None:
    """D = (100/F)·(F − C), percent; None where Fog had no output."""
    return None if fog <= 0 else 100.0 / fog * (fog - cloud)


def is_of_stage(identity: Identity, stage: str, edges: Sequence[str]) -> bool:
    """True if a result is one of the paper's job `stage`, of one of the edges."""
    if not isinstance(identity, WindowIdentity):
        return False
    return identity.job in {f"{STAGES[stage]}{edge}" for edge in edges}


def stage_rate(
    stage: str,
    edges: Sequence[str],
    begun_at: float,
    truth: Expected,
    observations: Iterable[ReceivedMessage],
    progress: Mapping[str, tuple[JobStatus, JobStatus]],
) -> StageRate:
    """The rate of a stage since `begun_at`, Unix seconds. `truth` are the windows of events sent since then.

    A result counts once, however often it came. `progress` is what each job reported before and after.
    """
    expected = {i: int(values[COUNT]) for i, values in truth.items() if is_of_stage(i, stage, edges)}
    received: dict[Identity, float] = {}
    for each in observations:
        if each.identity in expected:
            received.setdefault(each.identity, each.received_at)
    events = sum(expected[identity] for identity in received if isinstance(identity, WindowIdentity))
    seconds = max(received.values(), default=begun_at) - begun_at
    reported = [progress[f"{STAGES[stage]}{e}"] for e in edges if f"{STAGES[stage]}{e}" in progress]
    read = sum(max(0, after.events - before.events) for before, after in reported)
    commits = [after.committed_at.timestamp() for _, after in reported if after.committed_at is not None]
    spent = max(commits, default=begun_at) - begun_at
    return StageRate(
        events=events,
        of_events=sum(expected.values()),
        seconds=round(seconds, 3),
        rate=_quotient(events, seconds) or 0.0,
        reported_events=read,
        reported_rate=_quotient(read, spent),
    )


def _quotient(events: int, seconds: float) -> float | None:
    return round(events / seconds, 2) if seconds > 0 else None
