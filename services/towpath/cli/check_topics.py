"""Judge the results on a topic of a job by a file or by a recording."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from towpath.checker.expectation import Truth
from towpath.checker.files import bad_line, lines_of
from towpath.checker.identity import Identity, identity_of
from towpath.checker.judging import judge
from towpath.checker.observation import values_of
from towpath.checker.truth import window_truth
from towpath.checker.verdict import Leniency, Verdict
from towpath.cli.check_broker import collected, collector_at
from towpath.cli.check_options import invalid_option
from towpath.cli.connection import ask
from towpath.cli.extensions import Recording, recordings
from towpath.cli.output import working
from towpath.contracts.commands import JobView, ListJobs
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import Window, WindowShape
from towpath.mesh.home import Home


async def judge_topic(
    home: Home, site: str, topic: str, truth: Truth, seconds: float, until_complete: bool, leniency: Leniency
) -> Verdict:
    """Collect for some seconds, or until complete, then judge."""
    collector = await collector_at(home, site, topic)
    came = await collected(collector, f"{topic} at {site}", seconds, truth.keys(), until_complete)
    return judge(truth, came, leniency)


def read_expected(path: Path) -> Truth:
    """Return results by identity from a file of JSON lines. Raises `TowpathError` that names the line."""
    truth: dict[Identity, Mapping[str, Any]] = {}
    for number, line in lines_of(path, "expected"):
        about = {"field": "expected", "value": line.decode(errors="replace")}
        try:
            body = json.loads(line)
            identity, values = identity_of(body), values_of(body)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            allowed = "results as jobs publish them"
            raise bad_line(path, number, f"no result: {error!r}", **about, allowed=allowed) from error
        if identity in truth:
            raise bad_line(path, number, "repeats a result", **about, allowed="each once")
        truth[identity] = values
    return truth


async def computed(
    home: Home, site: str, topic: str, against: str, airport: str | None, limit: int | None
) -> Truth:
    """Return the results that the job behind `topic` should derive from the recorded departures."""
    known = recordings()
    if against not in known:
        raise invalid_option("no such recording", "against", against, ", ".join([*known, "input"]))
    spec = job_on((await ask(home, ListJobs())).jobs, site, topic).spec
    with working("computing what the results should be …"):
        return await asyncio.to_thread(_window_truth, spec, known[against], airport, limit)


def job_on(jobs: Sequence[JobView], site: str, topic: str) -> JobView:
    """Return the job that publishes on a topic of a site. Raises `TowpathError` (unknown topic)."""
    outputs = {f"{job.spec.output_site}/{job.spec.output.topic}": job for job in jobs}
    job = outputs.get(f"{site}/{topic}")
    if job is None:
        raise TowpathError(
            ErrorCode.UNKNOWN_TOPIC,
            "no job publishes here",
            field="topic",
            value=f"{site}/{topic}",
            allowed=sorted(outputs),
        )
    return job


def _window_truth(
    spec: JobSpec, load: Callable[[], Recording], airport: str | None, limit: int | None
) -> Truth:
    window = spec.operator
    if not isinstance(window, Window) or window.shape is not WindowShape.TUMBLING:
        raise invalid_option(
            "cannot be computed", "topic", spec.output.topic, "the output of a tumbling window"
        )
    if window.event_time is None or window.size_s is None:
        raise invalid_option(
            "depends on when events came", "topic", spec.output.topic, "a window with event_time"
        )
    frame = load()(airport, limit)
    truth = window_truth(frame, window.event_time, window.size_s, window.key, window.aggregates, spec.name)
    return {**truth}
