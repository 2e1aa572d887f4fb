"""Judge processing-time windows by the events in the ranges that the results say they cover."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from towpath.bus import Bus
from towpath.checker.accepted import StoredEvent, accepted_events
from towpath.checker.identity import RangeIdentity
from towpath.checker.observation import ReceivedMessage
from towpath.checker.ranges import judge_ranges
from towpath.checker.verdict import Leniency, Verdict
from towpath.cli.check_broker import collector_at
from towpath.cli.check_topics import job_on
from towpath.cli.connection import LOOK_ATTEMPT_S, LOOK_DEADLINE_S, load_mesh, open_bus
from towpath.cli.output import say, working
from towpath.contracts.commands import JobView, ListJobs
from towpath.contracts.data_plane import device_stream, device_subject
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Input
from towpath.contracts.operators import ProcessingWindow
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.streams.failures import EventsLost
from towpath.streams.log_reader import Access, LogReader

ARRIVAL_S = 2.0
"""Time for the results of a committed micro-batch to reach the subscriber."""


async def judge_against_input(
    home: Home, site: str, topic: str, seconds: float, leniency: Leniency
) -> Verdict:
    """Collect the results of a job with processing windows for some seconds, and judge them.

    An event that was stored after the beginning and processed by the end must be in exactly one window, and
    every window that came must be right. Raises `TowpathError`: no such job, another operator, or events that
    are not kept any more.
    """
    mesh = await load_mesh(home)
    async with open_bus(home) as bus:
        jobs = await _jobs(bus)
        source = InputStream.of(mesh, jobs, _window_job(job_on(jobs, site, topic)).spec.inputs[0])
        with working("subscribing …") as status:
            async with await collector_at(home, site, topic) as collector:
                after = await asyncio.to_thread(source.newest)
                say(f"subscribed to {topic} at {site}: collecting for {seconds:g} s")
                status.update(f"collecting for {seconds:g} s …")
                await asyncio.sleep(seconds)
                job = _window_job(job_on(await _jobs(bus), site, topic))
                await asyncio.sleep(ARRIVAL_S)
                collector.check()
    through = max(after, _position(job))
    with working("computing what the results should be …"):
        return await asyncio.to_thread(
            _judged, job, source, collector.observations, (after, through), leniency
        )


async def _jobs(bus: Bus) -> list[JobView]:
    return (await bus.request(ListJobs(), deadline_s=LOOK_DEADLINE_S, attempt_s=LOOK_ATTEMPT_S)).jobs


def _window_job(job: JobView) -> JobView:
    kind = job.spec.operator.kind
    if not isinstance(job.spec.operator, ProcessingWindow):
        raise TowpathError(
            ErrorCode.INVALID,
            "only results that say which serial numbers they cover can be judged by the input",
            field="operator.kind",
            value=kind,
            allowed="processing_window",
        )
    return job


def _position(job: JobView) -> int:
    """Return the newest serial number processed and committed, as the site reported; 0 if none is."""
    return max(job.status.serials.values(), default=0) if job.status is not None else 0


@dataclass(frozen=True)
class InputStream:
    """The stream that a job reads, read at its own site. Methods block."""

    url: str
    user: str
    password: str
    stream: str
    subject: str | None
    """Only messages on it count; all if None."""

    @classmethod
    def of(cls, mesh: MeshState, jobs: Sequence[JobView], source: Input) -> InputStream:
        """Return the stream of an input. Raises `TowpathError` if it is not known any more."""
        access = mesh.site(source.site)
        login = access.login("engine")
        if source.from_device:
            stream, subject = device_stream(source.topic), device_subject(source.topic)
        else:
            stream, subject = job_on(jobs, source.site, source.topic).output.stream, None
        return cls(access.nats_url, login.user, login.password, stream, subject)

    def newest(self) -> int:
        """Return the newest serial number."""
        with self._reader() as reader:
            return reader.view(self.stream).last

    def events(self, after: int, through: int) -> Iterator[StoredEvent]:
        """Return the events with `after` < serial number ≤ `through`. Raises `TowpathError` (events lost)."""
        with self._reader() as reader:
            try:
                for messages in reader.read(self.stream, after, through):
                    for message in messages:
                        if self.subject is None or message.subject == self.subject:
                            yield StoredEvent(message.stream_sequence, message.payload)
            except EventsLost as error:
                raise TowpathError(ErrorCode.EVENTS_LOST, str(error), field="topic") from error

    def all(self) -> Iterator[StoredEvent]:
        """Return all events that are kept now. Raises `TowpathError` (events lost)."""
        with self._reader() as reader:
            view = reader.view(self.stream)
        yield from self.events(view.first - 1, view.last)

    @contextmanager
    def _reader(self) -> Iterator[LogReader]:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:  # Readable by the owner only.
            json.dump({"user": self.user, "password": self.password}, file)
            file.flush()
            yield LogReader(Access(self.url, file.name))


def _judged(
    job: JobView,
    source: InputStream,
    observations: Sequence[ReceivedMessage],
    covered: tuple[int, int],
    leniency: Leniency,
) -> Verdict:
    window = job.spec.operator
    assert isinstance(window, ProcessingWindow)
    came = [o.identity for o in observations if isinstance(o.identity, RangeIdentity)]
    begin = min([covered[0], *(identity.after for identity in came)])
    end = max([covered[1], *(identity.through for identity in came)])
    events = accepted_events(
        source.events(begin, end),
        window.fields,
        window.key,
        from_device=source.subject is not None,
    )
    return judge_ranges(
        events,
        observations,
        job=job.spec.name,
        key=window.key,
        aggregates=window.aggregates,
        after=covered[0],
        through=covered[1],
        leniency=leniency,
    )
